# The program that the agents of this folder run: the one place to put yours.
#
# It finds its prompt on standard input and tells what it does on standard output, as JSON lines or as text; see
# docs/guides/agents.md. $ORC_AGENT says which agent it is, $ORC_MODE what for. A program that knows nothing of this is
# wrapped, for example like so, where the last line of its answer is the JSON that the agent owes:
#
#   answer=$(my-agent --prompt-from-stdin)
#   printf '%s\n' "$answer"
#   printf '{"type":"output","value":%s}\n' "$(printf '%s\n' "$answer" | tail -n 1)"
#
# What is here needs no model: it understands one kind of request, enough to try the pipelines and to test them.
exec sh agents/bin/scripted.sh
