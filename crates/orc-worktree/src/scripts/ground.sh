# Makes or moves on a ground: an immutable clone at one commit. Runs in a box; nothing of an agent is here.
set -eu
cd "$W"
if [ "$FRESH" = 1 ]; then
	git init -q --template= -b "${BRANCH:-main}" --object-format="$FORMAT" .
	# Programs write there without looking whether it exists.
	mkdir -p .git/info .git/hooks
	large_filters
	# Nothing cleans up behind the back of a run.
	git config gc.auto 0
	git config maintenance.auto false
	if [ "$STAT" = minimal ]; then
		# A plain copy has other inodes and change times; without this the first status reads every file.
		git config core.checkStat minimal
		git config core.trustctime false
	fi
fi
if [ -s "$E/in.pack" ]; then
	git index-pack --stdin --fix-thin <"$E/in.pack" >/dev/null
fi
git for-each-ref --format='delete %(refname)' refs/heads | git update-ref --stdin
if [ -n "$BRANCH" ]; then
	git symbolic-ref HEAD "refs/heads/$BRANCH"
	git update-ref "refs/heads/$BRANCH" "$COMMIT"
else
	git update-ref --no-deref HEAD "$COMMIT"
fi
git -c core.logAllRefUpdates=false -c checkout.workers=0 reset -q --hard "$COMMIT"
rm -rf .git/ORIG_HEAD .git/logs
missing=$(large_checkout | wc -l)
if [ "$missing" != 0 ]; then printf 'note %s large files are not on this machine\0' "$missing"; fi

tab=$(printf '\t')
while IFS="$tab" read -r number path place above name url commit; do
	if [ ! -d "$place" ]; then
		mkdir -p "$place"
		git init -q --bare --template= --object-format="$FORMAT" "$place"
		mkdir -p "$place/info" "$place/hooks"
		git config -f "$place/config" core.bare false
		git config -f "$place/config" core.worktree "$(realpath -m --relative-to="$place" "$path")"
		git config -f "$place/config" gc.auto 0
	fi
	if [ ! -e "$path/.git" ]; then
		mkdir -p "$path"
		printf 'gitdir: %s\n' "$(realpath -m --relative-to="$path" "$place")" >"$path/.git"
	fi
	if [ -s "$E/module-$number.pack" ]; then
		git --git-dir="$place" index-pack --stdin --fix-thin <"$E/module-$number.pack" >/dev/null
	fi
	git -C "$path" update-ref --no-deref HEAD "$commit"
	git -C "$path" -c core.logAllRefUpdates=false reset -q --hard "$commit"
	rm -rf "$place/ORIG_HEAD" "$place/logs"
	git -C "$above" config "submodule.$name.url" "$url"
	git -C "$above" config "submodule.$name.active" true
done <"$E/modules"
if [ "$FRESH" = 1 ]; then
	# A file as young as the index counts as perhaps changed since, and would be read by every first status. So the
	# index is written once more when its second is over.
	made=$(stat -c %Y .git/index)
	while [ "$(date +%s)" -le "$made" ]; do sleep 0.05; done
	git update-index -q --refresh --force-write-index
fi
