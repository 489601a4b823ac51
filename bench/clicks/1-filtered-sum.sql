SELECT count(*) AS views, sum(duration) AS seconds
FROM clicks
WHERE load_ms > 3000
