# Reads a copy and writes what is in it as commits and a pack. Runs in a box.
#
# Only one thing is asked of the copy's own repository: what its references and files are called. Everything else is done
# by a repository of ours ($E/git) that looks at the copy's files as its work tree and at its objects as further ones, so
# that no configuration, hook, filter or index of a run has a say, and a repository that is broken is not in the way.
set -u
export GIT_DIR="$E/git" GIT_WORK_TREE="$W" GIT_INDEX_FILE="$E/git/index"
tell() { printf '%s %s\0' "$1" "$2"; }
# Bounded: what a run configured may make git wait for ever.
asked() { env -u GIT_WORK_TREE -u GIT_INDEX_FILE GIT_DIR="$W/.git" timeout -k 1 20 git "$@" 2>/dev/null </dev/null; }
whole() { git rev-list --objects --quiet "$1" --not "$START" "$GROUND" 2>/dev/null; }
new() { [ -n "$(git rev-list -n 1 "$1" --not $result "$START" "$GROUND" 2>/dev/null)" ]; }
present() { xargs -0 -r sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\0" "$f"; fi; done' sh; }
absent() { xargs -0 -r sh -c 'for f; do if [ -e "$f" ] || [ -L "$f" ]; then :; else printf "%s\0" "$f"; fi; done' sh; }

# Stages everything that is not ignored, but repositories inside; those are listed in $E/nested.
stage() {
	git ls-files -z -o --exclude-standard >"$E/others" || return 1
	grep -z '/$' <"$E/others" >"$E/nested"
	{ printf '.\0'; sed -z 's|/$||; s|^|:(exclude,literal)|' <"$E/nested"; } >"$E/paths"
	git -c advice.addEmbeddedRepo=false add -A --ignore-errors --pathspec-from-file="$E/paths" --pathspec-file-nul 2>"$E/errors"
	return 0
}

# A commit without parents with the files of a directory below the work tree.
files_of() {
	rm -f "$E/part.index"
	(
		export GIT_WORK_TREE="$W/$1" GIT_INDEX_FILE="$E/part.index"
		cd "$W/$1" || exit 1
		stage || exit 1
		git commit-tree "$(git write-tree)" <"$E/message"
	)
}

cd "$W" || exit 10
# git waits for a pipe in the place of a file, and keeps none.
find . -type p -delete 2>/dev/null
if [ -s "$E/in.pack" ]; then
	git index-pack --stdin --fix-thin <"$E/in.pack" >/dev/null || exit 11
fi

own= head= merge= result=
if [ "$MODE" = full ] && { [ -L .git ] || ! own=$(asked rev-parse --absolute-git-dir); }; then
	MODE=files own=
fi
if [ "$MODE" = full ]; then
	objects=$(asked rev-parse --path-format=absolute --git-path objects) && printf '%s\n' "$objects" >>"$GIT_DIR/objects/info/alternates"
	for module in "$own"/modules/*/objects "$own"/modules/*/modules/*/objects; do
		if [ -d "$module" ]; then printf '%s\n' "$module" >>"$GIT_DIR/objects/info/alternates"; fi
	done
	head=$(asked rev-parse -q --verify 'HEAD^{commit}') || head=
	if [ -z "$head" ]; then
		tell note 'its HEAD names no commit: what is in the files is a commit on top of the start'
	elif ! whole "$head"; then
		tell note 'its commits are damaged: what is in the files is a commit on top of the start'
		head=
	fi
	merge=$(asked rev-parse -q --verify 'MERGE_HEAD^{commit}') || merge=
	if [ -n "$merge" ] && ! whole "$merge"; then merge=; fi
	if [ -f "$own/info/exclude" ] && [ ! -L "$own/info/exclude" ]; then
		mkdir -p "$GIT_DIR/info" && head -c 65536 "$own/info/exclude" >"$GIT_DIR/info/exclude"
	fi
else
	tell note 'its repository cannot be used: what is in the files is a commit on top of the start'
fi
parent=${head:-$START}

# The index of the ground knows the times of all files that nobody touched, so that only others are read.
git read-tree -m "$parent" 2>/dev/null || git read-tree "$parent" || exit 12

# What nobody can read cannot be kept.
find . -path ./.git -prune -o -type d ! -perm -u=rwx -exec chmod u+rwx {} \; \
	-o -type f ! -perm -u=r -exec chmod u+r {} + 2>/dev/null

if [ -n "$own" ] && [ -f "$own/index" ] && [ ! -L "$own/index" ] &&
	GIT_INDEX_FILE="$own/index" git ls-files -t -z >"$E/index" 2>/dev/null; then
	git ls-files -z | sort -z -u >"$E/tracked"
	# Left out on purpose (a sparse checkout), not removed.
	sed -z -n 's/^S //p' <"$E/index" | sort -z -u | comm -z -12 - "$E/tracked" | absent >"$E/sparse"
	if [ -s "$E/sparse" ]; then git update-index -z --skip-worktree --stdin <"$E/sparse"; fi
	# Ignored, but added all the same.
	sed -z 's/^..//' <"$E/index" | sort -z -u | comm -z -23 - "$E/tracked" | present >"$E/forced"
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
if [ "$MODE" = full ] && [ -n "$merge" ] && [ -z "$(git rev-list -n 1 "$merge" --not "$parent")" ]; then merge=; fi
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
if [ "$MODE" = full ]; then
	asked for-each-ref --format='%(objectname) %(refname)' | grep -v ' refs/stash$' | head -n 1000 | while read -r id name; do
		commit=$(git rev-parse -q --verify "$id^{commit}") || continue
		if new "$commit" && whole "$commit"; then left "$commit" "$name"; fi
	done
	asked rev-list -g refs/stash | head -n 100 | while read -r commit; do
		if new "$commit" && whole "$commit"; then left "$commit" stash; fi
	done
	for name in MERGE_AUTOSTASH CHERRY_PICK_HEAD rebase-merge/autostash rebase-apply/autostash rebase-merge/orig-head rebase-apply/orig-head; do
		[ -f "$own/$name" ] && [ ! -L "$own/$name" ] || continue
		commit=$(git rev-parse -q --verify "$(head -c 64 "$own/$name" | tr -d '\n')^{commit}") || continue
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
	files=$(files_of "$path") || { tell lost "the submodule $path"; continue; }
	recorded=$(git rev-parse -q --verify "$commit^{tree}") || recorded=
	known=$(env -u GIT_INDEX_FILE GIT_DIR="$E/known" git cat-file -e "$commit" 2>/dev/null && echo yes)
	if [ "$known" != yes ] || [ "$(git rev-parse "$files^{tree}")" != "$recorded" ]; then
		left "$files" "submodule $path"
	fi
done

{
	printf '%s\n' "$result"
	cat "$E/left"
	printf '^%s\n' "$START" "$GROUND"
} | git pack-objects --revs --thin --stdout -q --delta-base-offset >"$E/out.pack" || exit 16
