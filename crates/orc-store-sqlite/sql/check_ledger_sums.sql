-- Sums that are not what their entries add up to, each with both figures.
SELECT
    COALESCE(s.day, f.day) AS day,
    COALESCE(s.account, f.account) AS account,
    COALESCE(a.agent, '?') AS agent,
    COALESCE(a.model, '?') AS model,
    COALESCE(s.calls, 0) AS calls,
    COALESCE(s.input, 0) AS input,
    COALESCE(s.cache_read, 0) AS cache_read,
    COALESCE(s.cache_write, 0) AS cache_write,
    COALESCE(s.cache_write_long, 0) AS cache_write_long,
    COALESCE(s.output, 0) AS output,
    COALESCE(s.reasoning, 0) AS reasoning,
    COALESCE(s.server_tools, 0) AS server_tools,
    COALESCE(s.lost_tokens, 0) AS lost_tokens,
    COALESCE(s.micros, 0) AS micros,
    COALESCE(s.unsure, 0) AS unsure,
    COALESCE(s.reserved, 0) AS reserved,
    COALESCE(s.in_flight, 0) AS in_flight,
    COALESCE(f.calls, 0) AS folded_calls,
    COALESCE(f.input, 0) AS folded_input,
    COALESCE(f.cache_read, 0) AS folded_cache_read,
    COALESCE(f.cache_write, 0) AS folded_cache_write,
    COALESCE(f.cache_write_long, 0) AS folded_cache_write_long,
    COALESCE(f.output, 0) AS folded_output,
    COALESCE(f.reasoning, 0) AS folded_reasoning,
    COALESCE(f.server_tools, 0) AS folded_server_tools,
    COALESCE(f.lost_tokens, 0) AS folded_lost_tokens,
    COALESCE(f.micros, 0) AS folded_micros,
    COALESCE(f.unsure, 0) AS folded_unsure,
    COALESCE(f.reserved, 0) AS folded_reserved,
    COALESCE(f.in_flight, 0) AS folded_in_flight
FROM ledger_sums AS s FULL OUTER JOIN (
    SELECT
        day,
        account,
        sum(calls) AS calls,
        sum(input) AS input,
        sum(cache_read) AS cache_read,
        sum(cache_write) AS cache_write,
        sum(cache_write_long) AS cache_write_long,
        sum(output) AS output,
        sum(reasoning) AS reasoning,
        sum(server_tools) AS server_tools,
        sum(lost_tokens) AS lost_tokens,
        sum(micros) AS micros,
        sum(unsure) AS unsure,
        sum(reserved) AS reserved,
        sum(in_flight) AS in_flight
    FROM ledger_folded GROUP BY day, account
) AS f ON f.day = s.day AND f.account = s.account
LEFT JOIN ledger_accounts AS a ON a.id = COALESCE(s.account, f.account)
WHERE s.day IS NULL OR f.day IS NULL
    OR s.calls <> f.calls
    OR s.input <> f.input
    OR s.cache_read <> f.cache_read
    OR s.cache_write <> f.cache_write
    OR s.cache_write_long <> f.cache_write_long
    OR s.output <> f.output
    OR s.reasoning <> f.reasoning
    OR s.server_tools <> f.server_tools
    OR s.lost_tokens <> f.lost_tokens
    OR s.micros <> f.micros
    OR s.unsure <> f.unsure
    OR s.reserved <> f.reserved
    OR s.in_flight <> f.in_flight
