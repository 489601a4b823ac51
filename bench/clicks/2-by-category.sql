SELECT category, count(*) AS views, avg(duration) AS seconds, max(ts) AS last, sum(price) AS sales
FROM clicks
GROUP BY category
