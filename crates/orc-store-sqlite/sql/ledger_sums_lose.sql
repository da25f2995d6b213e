UPDATE ledger_sums SET
    calls = ledger_sums.calls + lost.calls,
    lost_tokens = lost_tokens + lost.tokens,
    micros = ledger_sums.micros + lost.micros,
    unsure = unsure + lost.micros,
    reserved = reserved - lost.micros,
    in_flight = in_flight - lost.calls
FROM (
    SELECT c.day, c.account, count(*) AS calls, sum(c.micros) AS micros, sum(c.tokens) AS tokens
    FROM ledger_open AS o JOIN ledger_calls AS c ON c.call = o.call
    WHERE o.instance = $1
    GROUP BY c.day, c.account
) AS lost
WHERE ledger_sums.day = lost.day AND ledger_sums.account = lost.account
