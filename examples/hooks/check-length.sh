# A hook of the pipeline: what it prints is added to the context of the next stages. If it fails, the run pauses.
lines=$(grep -c '^- ' NOTES.md)
[ "$lines" -ge 2 ] || { echo "NOTES.md has only $lines line" >&2; exit 1; }
echo "NOTES.md has $lines lines."
