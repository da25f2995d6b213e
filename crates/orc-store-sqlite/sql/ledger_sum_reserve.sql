INSERT INTO ledger_sums (
    day, account, calls, input, cache_read, cache_write, cache_write_long, output, reasoning, server_tools,
    lost_tokens, micros, unsure, reserved, in_flight
)
VALUES ($1, $2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, $3, 1)
ON CONFLICT (day, account)
DO UPDATE SET reserved = ledger_sums.reserved + excluded.reserved, in_flight = ledger_sums.in_flight + 1
