/*-------------------------------------------------------------------------
 *
 * bytes.h
 *	  Reading, hashing and comparing texts and words.  No PostgreSQL here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_BYTES_H
#define GPUSCAN_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t
bytes_mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product =
		(unsigned __int128) (a ^ UINT64_C(0x9E3779B97F4A7C15)) * (b ^ UINT64_C(0xD6E8FEB86659FD93));

	return (uint64_t) product ^ (uint64_t) (product >> 64);
}

/* FNV-1a, byte by byte: one that differs always makes another hash. */
#define BYTES_FNV_START UINT64_C(0xCBF29CE484222325)

static inline uint64_t
bytes_fnv(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001B3;
	return hash;
}

static inline uint16_t
bytes_load_u16(const char *p)
{
	uint16_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint32_t
bytes_load_u32(const char *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint64_t
bytes_load_u64(const char *p)
{
	uint64_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

/*
 * Short texts, which most are, without a call of memcpy or memcmp
 */

/* All of 1 to 7 bytes, some of them twice, as one word. */
static inline uint64_t
bytes_load_short(const char *p, uint32_t len)
{
	uint32_t low;
	uint32_t high;

	if (len < 4)
		return (uint64_t) (uint8_t) p[0] | (uint64_t) (uint8_t) p[len / 2] << 8 |
			   (uint64_t) (uint8_t) p[len - 1] << 16;
	memcpy(&low, p, sizeof(low));
	memcpy(&high, p + len - 4, sizeof(high));
	return (uint64_t) high << 32 | low;
}

static inline bool
bytes_equal(const char *a, const char *b, uint32_t len)
{
	if (len < 8)
		return len == 0 || bytes_load_short(a, len) == bytes_load_short(b, len);
	for (uint32_t i = 0; i + 8 < len; i += 8)
	{
		if (bytes_load_u64(a + i) != bytes_load_u64(b + i))
			return false;
	}
	return bytes_load_u64(a + len - 8) == bytes_load_u64(b + len - 8);
}

/* Eight bytes at a time; the last of them may be read twice. */
static inline uint64_t
bytes_hash(const char *data, uint32_t len)
{
	uint64_t hash = len;
	uint64_t last = 0;

	if (len >= 8)
	{
		for (uint32_t i = 0; i + 8 < len; i += 8)
			hash = bytes_mix(hash, bytes_load_u64(data + i));
		last = bytes_load_u64(data + len - 8);
	}
	else if (len > 0)
		last = bytes_load_short(data, len);
	return bytes_mix(hash, last);
}

#endif /* GPUSCAN_BYTES_H */
