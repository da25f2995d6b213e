# Large files kept beside the objects. Those of the machine lie read-only below /orc/large; nothing is ever fetched.

# Lets git turn large files into what stands for them, and back where they are there.
large_filters() {
	command -v git-lfs >/dev/null || return 0
	git config "$@" filter.lfs.clean 'git-lfs clean -- %f'
	git config "$@" filter.lfs.smudge 'git-lfs smudge --skip -- %f'
	git config "$@" filter.lfs.process 'git-lfs filter-process --skip'
	git config "$@" filter.lfs.required true
}

# Puts large files of HEAD into their places; prints the names of those that are nowhere.
large_checkout() {
	command -v git-lfs >/dev/null || return 0
	git ls-files -z -- .gitattributes '*/.gitattributes' | xargs -0 -r cat 2>/dev/null | grep -q 'filter=lfs' || return 0
	git lfs ls-files -l 2>/dev/null | cut -d ' ' -f 1 | sort -u >"$E/wanted"
	[ -s "$E/wanted" ] || return 0
	while read -r id; do
		place="$(printf %.2s "$id")/$(printf %s "$id" | cut -c 3-4)"
		[ ! -e ".git/lfs/objects/$place/$id" ] || continue
		for from in /orc/large/*/"$place/$id"; do
			if [ -f "$from" ]; then
				mkdir -p ".git/lfs/objects/$place"
				cp "$from" ".git/lfs/objects/$place/$id"
				continue 2
			fi
		done
		printf '%s\n' "$id"
	done <"$E/wanted"
	git lfs checkout >/dev/null 2>&1 || :
}

