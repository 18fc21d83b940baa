#!/bin/bash
# Deployments are shown as a dry run first, and a person confirms.
jq -c 'if (.tool_input.command // "" | test("^deploy( |$)")) and
          (.tool_input.command | contains("--dry-run") | not)
  then {hookSpecificOutput: {
    hookEventName: "PreToolUse",
    permissionDecision: "ask",
    permissionDecisionReason: "dry run first",
    updatedInput: (.tool_input + {command: (.tool_input.command + " --dry-run")})}}
  else empty end'
