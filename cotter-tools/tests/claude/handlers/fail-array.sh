#!/bin/sh
echo '[{"decision": "block", "reason": "in an array"}]'
