SELECT user_id, avg(duration) AS seconds, count(*) AS views, max(ts) AS last,
	   count(*) FILTER (WHERE load_ms > 3000) AS slow
FROM clicks
GROUP BY user_id
