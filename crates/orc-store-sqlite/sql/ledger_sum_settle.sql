UPDATE ledger_sums SET
    calls = calls + 1,
    micros = ledger_sums.micros + $2,
    unsure = unsure + $3,
    input = input + $4,
    cache_read = cache_read + $5,
    cache_write = cache_write + $6,
    cache_write_long = cache_write_long + $7,
    output = output + $8,
    reasoning = reasoning + $9,
    server_tools = server_tools + $10,
    reserved = reserved - c.micros,
    in_flight = in_flight - 1
FROM ledger_calls AS c
WHERE c.call = $1 AND ledger_sums.day = c.day AND ledger_sums.account = c.account
