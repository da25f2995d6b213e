SELECT count(*) AS runs, count(DISTINCT flow) AS flows FROM runs WHERE finished_at IS NULL
