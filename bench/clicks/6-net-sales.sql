SELECT sum(price * (1 - 0.05)) AS net_sales
FROM clicks
WHERE ts >= timestamp '2026-02-01' AND ts < timestamp '2026-03-01' AND category < 50
