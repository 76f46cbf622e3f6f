# Stands for an agent: it gets the prompt on stdin and writes a draft. It does what the review says.
prompt=$(cat)
echo "# Release 1.0" > NOTES.md
case $prompt in
  *"name each fix"*)
    printf '%s\n' "- The parser accepts empty files." "- The server starts twice as fast." >> NOTES.md ;;
  *)
    echo "- Various fixes." >> NOTES.md ;;
esac
echo '{"summary":"wrote NOTES.md"}' > "$AGENTFORGE_RESULT"
