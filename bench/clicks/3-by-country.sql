SELECT country, count(*) AS views, sum(price) AS sales
FROM clicks
GROUP BY country
