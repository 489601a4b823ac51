/*-------------------------------------------------------------------------
 *
 * heap_format.h
 *	  PostgreSQL's heap pages, tuples and varlenas, for code that cannot
 *	  include postgres.h.
 *
 * Only what a device reads.  Everything is declared for little-endian
 * machines, the only ones that gpuscan is built for; static assertions on the
 * PostgreSQL side (heap/) compare these numbers with the server's headers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_HEAP_FORMAT_H
#define GPUSCAN_HEAP_FORMAT_H

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "gpuscan reads heap pages of little-endian machines only"
#endif

/*
 * PageHeaderData is 24 bytes; the line pointers, ItemIdData, follow it: one
 * uint32_t each, of lp_off:15, lp_flags:2, lp_len:15 from the lowest bit.
 */
#define GPUSCAN_PAGE_HEADER_SIZE 24
#define GPUSCAN_LP_OFF(lp) ((lp) &0x7fff)
#define GPUSCAN_LP_FLAGS(lp) (((lp) >> 15) & 3)
#define GPUSCAN_LP_LEN(lp) ((lp) >> 17)
#define GPUSCAN_LP_NORMAL 1

/* HeapTupleHeaderData: the null bitmap, bit set for not NULL, lies at the end. */
#define GPUSCAN_TUPLE_HEADER_SIZE 23
#define GPUSCAN_TUPLE_INFOMASK2 18 /* uint16_t t_infomask2 */
#define GPUSCAN_TUPLE_INFOMASK 20  /* uint16_t t_infomask */
#define GPUSCAN_TUPLE_HOFF 22	   /* uint8_t t_hoff */
#define GPUSCAN_TUPLE_NATTS_MASK 0x07ff
#define GPUSCAN_TUPLE_HASNULL 0x0001

/*
 * varattrib_1b and varattrib_4b.  The first byte tells them apart: an even one
 * starts an aligned header of 4 bytes, whose lowest two bits are 00, or 10 if
 * compressed; an odd one is a header of 1 byte without alignment; 1 alone is
 * a TOAST pointer, varattrib_1b_e, with its kind in the second byte.
 */
#define GPUSCAN_VARLENA_IS_1B(byte) (((byte) &1) == 1)
#define GPUSCAN_VARLENA_IS_EXTERNAL(byte) ((byte) == 1)
#define GPUSCAN_VARLENA_1B_SIZE(byte) ((uint32_t) ((byte) >> 1))
#define GPUSCAN_VARLENA_4B_IS_COMPRESSED(word) (((word) &3) == 2)
#define GPUSCAN_VARLENA_4B_SIZE(word) ((word) >> 2)
#define GPUSCAN_VARTAG_ONDISK 18
#define GPUSCAN_VARLENA_ONDISK_SIZE 18 /* VARHDRSZ_EXTERNAL and varatt_external */

#endif /* GPUSCAN_HEAP_FORMAT_H */
