# Note why a session ended. No shebang: it is started as `sh FILE`.
reason=$(sed -n 's/.*"reason": *"\([^"]*\)".*/\1/p')
mkdir -p "$HOME/.claude/logs"
echo "session ended: ${reason:-unknown}" >>"$HOME/.claude/logs/sessions.log"
