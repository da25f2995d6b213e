# Takes one file out of a copy. Runs in a box: whatever its path leads to, it is of this box.
cd "$W" || exit 1
no() { printf 'no %s\0' "$1"; exit 0; }
real=$(readlink -e -- "$FILE" 2>/dev/null) || no 'it is not there'
root=$(readlink -e -- "$W")
case "$real" in
"$root"/*) ;;
*) no 'it leads out of the place where the step works' ;;
esac
[ -f "$real" ] || no 'it is no file; pack a folder into an archive to keep it'
head -c "$BYTES" -- "$real" >"$E/out" || no 'it cannot be read'
