# Reads a copy and writes what is in it as commits and a pack. Runs in a box.
#
# A repository of ours ($E/git) looks at the copy's files as its work tree and at its objects as further ones; another
# ($E/own) has copies of its references. So no configuration, hook, filter or index of a run has a say, and a repository
# that is broken is not in the way. A name or path from there is data; what is no plain file is not read.
set -u
export GIT_DIR="$E/git" GIT_WORK_TREE="$W" GIT_INDEX_FILE="$E/git/index"
tell() { printf '%s %s\0' "$1" "$2"; }
asked() { env -u GIT_WORK_TREE -u GIT_INDEX_FILE GIT_DIR="$E/own" GIT_OBJECT_DIRECTORY="$E/git/objects" git "$@" 2>/dev/null </dev/null; }
plain() { [ -f "$1" ] && [ ! -L "$1" ]; }
# The commit that a file of the copy's repository names.
named() { plain "$own/$1" && git rev-parse -q --verify "$(head -c 64 "$own/$1" | head -n 1)^{commit}"; }
whole() { git rev-list --objects --quiet "$1" --not "$START" "$GROUND" 2>/dev/null; }
new() { [ -n "$(git rev-list -n 1 "$1" --not $result "$START" "$GROUND" 2>/dev/null)" ]; }
present() { xargs -0 -r sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\0" "$f"; fi; done' sh; }
absent() { xargs -0 -r sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then :; else printf "%s\0" "$f"; fi; done' sh; }

# Of the paths that are read, files of more than $MOST bytes: their size and path. A hole counts, because git reads it too.
large() {
	[ "$MOST" != 0 ] || return 0
	sed -z 's|^|./|' | xargs -0 -r sh -c 'find "$@" -maxdepth 0 -type f -size "+${MOST}c" -printf "%s %p\0" 2>/dev/null' sh |
		sed -z 's| \./| |'
}

# Stages everything that is not ignored, but repositories inside; those are listed in $E/nested. What is new goes into one
# pack (as files that git takes for big do), since a file for each costs more than all the rest.
stage() {
	git ls-files -z -o --exclude-standard >"$E/others" || return 1
	grep -z '/$' <"$E/others" >"$E/nested"
	# What is too large stays as it was, or is not there.
	{ cat "$E/others"; git diff-files --name-only -z; } | large >"$E/left-out"
	above=$(printf %s "${1:-}" | sed 's/[&|\\]/\\&/g')
	sed -z "s|^\([0-9]*\) |\1 $above|" <"$E/left-out" >>"$E/too-large"
	{ printf '.\0'; { sed -z 's|/$||' <"$E/nested"; sed -z 's|^[0-9]* ||' <"$E/left-out"; } | sed -z 's|^|:(exclude,literal)|'; } >"$E/paths"
	git -c advice.addEmbeddedRepo=false -c core.bigFileThreshold=1 add -A --ignore-errors --pathspec-from-file="$E/paths" --pathspec-file-nul 2>"$E/errors"
	return 0
}

# A commit without parents with the files of a directory below the work tree, which was at a commit or at none.
files_of() {
	rm -f "$E/part.index"
	(
		export GIT_WORK_TREE="$W/$1" GIT_INDEX_FILE="$E/part.index"
		cd "$W/$1" || exit 1
		if [ -n "${2:-}" ]; then git read-tree "$2" 2>/dev/null; fi
		stage "$1/" || exit 1
		git commit-tree "$(git write-tree)" <"$E/message"
	)
}

cd "$W" || exit 10
large_filters
: >"$E/too-large"
# git waits for a pipe in the place of a file, and keeps none.
find . -type p -delete 2>/dev/null
if [ -s "$E/in.pack" ]; then
	git index-pack --stdin --fix-thin <"$E/in.pack" >/dev/null || exit 11
fi

own= head= merge= result=
if [ "$MODE" = full ]; then
	if [ -d .git ] && [ ! -L .git ]; then
		own="$W/.git"
	elif plain .git; then
		own=$(cd "$(head -c 4096 .git | sed -n '1s/^gitdir: //p')" 2>/dev/null && pwd) || own=
	fi
	common=$own
	if [ -n "$own" ] && plain "$own/commondir"; then common=$(cd "$own" && cd "$(head -c 4096 commondir)" 2>/dev/null && pwd) || common=$own; fi
fi
if [ -n "$own" ]; then
	mkdir -p "$E/own/refs" "$E/own/objects" "$E/own/logs/refs" "$GIT_DIR/info"
	cp "$GIT_DIR/config" "$E/own/config"
	for file in HEAD packed-refs logs/refs/stash; do
		from="$common/$file"
		if [ "$file" = HEAD ]; then from="$own/HEAD"; fi
		if plain "$from"; then head -c 16777216 "$from" >"$E/own/$file"; fi
	done
	if [ -d "$common/reftable" ]; then
		cp -R -P "$common/reftable" "$E/own/reftable"
		env -u GIT_INDEX_FILE -u GIT_WORK_TREE git config -f "$E/own/config" core.repositoryformatversion 1
		git config -f "$E/own/config" extensions.refStorage reftable
	fi
	cp -R -P "$common/refs/." "$E/own/refs" 2>/dev/null
	find "$E/own" ! -type f ! -type d -delete
	[ -s "$E/own/HEAD" ] || printf 'ref: refs/heads/none\n' >"$E/own/HEAD"
	for objects in "$common/objects" "$common"/modules/*/objects "$common"/modules/*/modules/*/objects; do
		if [ -d "$objects" ]; then printf '%s\n' "$objects" >>"$GIT_DIR/objects/info/alternates"; fi
	done
	if plain "$common/info/exclude"; then head -c 65536 "$common/info/exclude" >"$GIT_DIR/info/exclude"; fi
	head=$(asked rev-parse -q --verify 'HEAD^{commit}') || head=
	if [ -z "$head" ]; then
		tell note 'its HEAD names no commit: what is in the files is a commit on top of the start'
	elif ! whole "$head"; then
		tell note 'its commits are damaged: what is in the files is a commit on top of the start'
		head=
	fi
	merge=$(named MERGE_HEAD) || merge=
	if [ -n "$merge" ] && ! whole "$merge"; then merge=; fi
else
	tell note 'its repository cannot be used: what is in the files is a commit on top of the start'
fi
parent=${head:-$START}

# The index of the ground knows the times of all files that nobody touched, so that only others are read.
git read-tree -m "$parent" 2>/dev/null || git read-tree "$parent" || exit 12

# What nobody can read cannot be kept.
find . -path ./.git -prune -o -type d ! -perm -u=rwx -exec chmod u+rwx {} \; \
	-o -type f ! -perm -u=r -exec chmod u+r {} + 2>/dev/null

if [ -n "$own" ] && plain "$own/index" &&
	GIT_INDEX_FILE="$own/index" git ls-files -t -z >"$E/index" 2>/dev/null; then
	git ls-files -z | sort -z -u >"$E/tracked"
	# Left out on purpose (a sparse checkout), not removed.
	sed -z -n 's/^S //p' <"$E/index" | sort -z -u | comm -z -12 - "$E/tracked" | absent >"$E/sparse"
	if [ -s "$E/sparse" ]; then git update-index -z --skip-worktree --stdin <"$E/sparse"; fi
	# Ignored, but added all the same.
	sed -z 's/^..//' <"$E/index" | sort -z -u | comm -z -23 - "$E/tracked" | present >"$E/added"
	large <"$E/added" | tee -a "$E/too-large" | sed -z 's|^[0-9]* ||' | comm -z -23 "$E/added" - >"$E/forced"
	if [ -s "$E/forced" ]; then
		GIT_LITERAL_PATHSPECS=1 git -c advice.addEmbeddedRepo=false add -f --ignore-errors \
			--pathspec-from-file="$E/forced" --pathspec-file-nul 2>/dev/null
	fi
	# Conflicts that nobody resolved: markers, or a file that only one side has or that is no text and that nobody decided.
	GIT_INDEX_FILE="$own/index" git -c core.quotePath=false ls-files -u 2>/dev/null | cut -f 2- | sort -u | head -n 1000 |
		while IFS= read -r path; do
			if [ ! -s "$path" ]; then continue; fi
			sides=$(GIT_INDEX_FILE="$own/index" git ls-files -u -- ":(literal)$path" | grep -c ' [23]	')
			if [ "$sides" != 2 ] || ! grep -qI '' -- "$path" || grep -qE '^(<<<<<<<|>>>>>>>)( |$)' -- "$path"; then
				tell unresolved "$path"
			fi
		done
fi

stage || exit 13
cp "$E/nested" "$E/all-nested"
tree=$(git write-tree) || exit 14
if [ -s "$E/errors" ]; then
	tell lost "$(head -c 300 "$E/errors" | tr '\n' ' ')"
fi
if [ -n "$merge" ] && [ -z "$(git rev-list -n 1 "$merge" --not "$parent")" ]; then merge=; fi
if [ -z "$merge" ] && [ "$tree" = "$(git rev-parse "$parent^{tree}")" ]; then
	result=$parent
else
	result=$(git commit-tree "$tree" -p "$parent" ${merge:+-p "$merge"} <"$E/message") || exit 15
fi
tell result "$result"
tell tree "$tree"

if [ -n "${DIFF:-}" ]; then
	git diff --no-ext-diff --no-textconv --no-color "$START" "$tree" | head -c "$DIFF" >"$E/diff"
	exit 0
fi

: >"$E/left"
left() { printf '%s\n' "$1" >>"$E/left"; tell left "$1 $2"; }
if [ -n "$own" ]; then
	{
		asked for-each-ref --format='%(objectname) %(refname)' | grep -v ' refs/stash$' | head -n 1000
		asked rev-list -g refs/stash | head -n 100 | sed 's/$/ stash/'
		for name in MERGE_AUTOSTASH CHERRY_PICK_HEAD rebase-merge/autostash rebase-apply/autostash rebase-merge/orig-head rebase-apply/orig-head; do
			if commit=$(named "$name"); then printf '%s %s\n' "$commit" "$name"; fi
		done
	} | while read -r id name; do
		commit=$(git rev-parse -q --verify "$id^{commit}") || continue
		if new "$commit" && whole "$commit"; then left "$commit" "$name"; fi
	done
fi

# Repositories inside: their files, not their history. A name with a newline in it is not followed.
tr '\n\0' '\001\n' <"$E/all-nested" | head -n 100 | while IFS= read -r path; do
	path=${path%/}
	if commit=$(files_of "$path"); then left "$commit" "nested $path"; else tell lost "the repository $path"; fi
done
# Submodules: the same, when their files are not those of the commit that is recorded, or nobody else has that.
git -c core.quotePath=false ls-files -s | sed -n 's/^160000 \([0-9a-f]*\) 0	/\1 /p' | while read -r commit path; do
	[ -e "$path/.git" ] || continue
	files=$(files_of "$path" "$commit") || { tell lost "the submodule $path"; continue; }
	recorded=$(git rev-parse -q --verify "$commit^{tree}") || recorded=
	known=$(env -u GIT_INDEX_FILE GIT_DIR="$E/known" git cat-file -e "$commit" 2>/dev/null && echo yes)
	if [ "$known" != yes ] || [ "$(git rev-parse "$files^{tree}")" != "$recorded" ]; then
		left "$files" "submodule $path"
	fi
done

head -z -n 1000 <"$E/too-large" | sed -z 's|^|large |'

# Large files that the ground does not have.
mkdir "$E/large"
for place in "$GIT_DIR/lfs/objects" ${own:+"$common/lfs/objects"}; do
	[ -d "$place" ] || continue
	(cd "$place" && find . -type f -print) | while IFS= read -r file; do
		if [ ! -e "/orc/ground/.git/lfs/objects/$file" ]; then cp -P "$place/$file" "$E/large/"; fi
	done
done

{
	printf '%s\n' "$result"
	cat "$E/left"
	printf '^%s\n' "$START" "$GROUND"
} | git pack-objects --revs --thin --stdout -q --delta-base-offset >"$E/out.pack" || exit 16
