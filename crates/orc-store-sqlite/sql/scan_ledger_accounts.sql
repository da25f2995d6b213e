SELECT a.id, a.data, COALESCE(o.owners, 0) AS owners
FROM ledger_accounts AS a
LEFT JOIN (SELECT account, count(*) AS owners FROM ledger_owners GROUP BY account) AS o ON o.account = a.id
