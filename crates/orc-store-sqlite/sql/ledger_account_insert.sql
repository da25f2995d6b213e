INSERT INTO ledger_accounts (id, agent, model, provider, pipeline, ticket, flow, run, prices, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO NOTHING
