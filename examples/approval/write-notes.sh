# Stands for an agent: it gets the prompt on stdin and writes release notes. With feedback, it works longer.
prompt=$(cat)
echo "# Release 1.0" > NOTES.md
case $prompt in
  *"Name each fix"*)
    sleep 20
    printf '%s\n' "- The parser accepts empty files." "- The server starts twice as fast." >> NOTES.md ;;
  *)
    echo "- Various fixes." >> NOTES.md ;;
esac
echo '{"summary":"wrote NOTES.md"}' > "$AGENTFORGE_RESULT"
