"""`continue` as a text: fails validation, and the action proceeds."""
print('{"continue": "false", "stopReason": "never"}')
