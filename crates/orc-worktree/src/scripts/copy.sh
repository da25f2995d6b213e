# Brings a copy that no program of a run has seen to where it starts, with the conflict that it is to hold.
set -eu
cd "$W"
if [ -s "$E/in.pack" ]; then
	git index-pack --stdin --fix-thin <"$E/in.pack" >/dev/null
fi
git -c core.logAllRefUpdates=false reset -q --hard "$START"
rm -rf .git/ORIG_HEAD
large_checkout >/dev/null
if [ -f .gitmodules ]; then
	git submodule -q update --init --recursive --no-fetch >/dev/null 2>&1 || :
fi
if [ -n "$THEIRS" ]; then
	git -c core.logAllRefUpdates=false merge -q --no-commit --no-ff -m "$MESSAGE" "$THEIRS" >/dev/null 2>&1 || :
	[ -f .git/MERGE_HEAD ] || { echo 'the merge leaves no conflict' >&2; exit 1; }
fi
