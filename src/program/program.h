/*-------------------------------------------------------------------------
 *
 * program.h
 *	  The Program: the one language between PostgreSQL and the devices.
 *
 * A Program is one block of flat, pointer-free memory: a header, then arrays
 * at the offsets that the header names.  It can be copied through shared
 * memory, hashed, and printed.  It says what to do with one tuple:
 *
 *	 - decode some attributes (inputs) into typed virtual registers,
 *	 - run straight-line operations (instructions) over registers,
 *	 - keep the tuple if the filter register is true,
 *	 - then either report it (a scan), or find the group of its key registers
 *	   and advance that group's aggregate states.
 *
 * Constants are parameters: registers whose value comes with the Program but
 * is no part of its shape, so that one compiled kernel serves every value.
 *
 * Each value of a register has two flags beside it (GPUSCAN_NULL,
 * GPUSCAN_ERROR).  An operation that PostgreSQL would answer with an error, or
 * that we cannot do exactly, gives GPUSCAN_ERROR; the flag travels through
 * strict operations as NULL does, and is dropped where PostgreSQL would not
 * have evaluated the value (CASE, COALESCE, AND, OR).  Where an error reaches
 * the filter, a key or an aggregate of a tuple that was kept, the device
 * leaves the tuple (scan) or the whole request (aggregation) to PostgreSQL.
 *
 * No PostgreSQL here: this header is shared by everything below device.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_PROGRAM_H
#define GPUSCAN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Changes whenever the meaning or layout of anything in this file changes. */
#define GPUSCAN_PROGRAM_VERSION 3

#define GPUSCAN_NULL 1	/* the value is NULL */
#define GPUSCAN_ERROR 2 /* the value is PostgreSQL's to compute, or to reject */

#define GPUSCAN_NO_REGISTER UINT16_MAX

/* Limits that keep a Program's cost bounded; the compiler rejects beyond. */
#define GPUSCAN_MAX_REGISTERS 2000
#define GPUSCAN_MAX_COLUMN_VALUES 4096 /* of which PostgreSQL evaluates an expression for each */
#define GPUSCAN_MAX_KEYS 32
#define GPUSCAN_MAX_PROGRAM_SIZE (256 * 1024)

/* What a register holds. */
typedef enum GpuScanClass
{
	GPUSCAN_BOOL, /* uint8_t, 0 or 1 */
	GPUSCAN_I32,  /* int2, int4, date */
	GPUSCAN_I64,  /* int8, timestamp, timestamptz, numeric of <= 18 digits */
	GPUSCAN_I128, /* numeric of <= 38 digits */
	GPUSCAN_F32,
	GPUSCAN_F64,
	GPUSCAN_TEXT /* bytes and a length; not owned */
} GpuScanClass;

#define GPUSCAN_NUM_CLASSES 7

/* How an attribute's bytes become a register. */
typedef enum GpuScanDecode
{
	GPUSCAN_DECODE_BOOL,
	GPUSCAN_DECODE_INT2, /* -> I32 */
	GPUSCAN_DECODE_INT4,
	GPUSCAN_DECODE_INT8,
	GPUSCAN_DECODE_FLOAT4,
	GPUSCAN_DECODE_FLOAT8,
	GPUSCAN_DECODE_DEC64,  /* numeric, scaled by 10^scale, |value| < 10^18 */
	GPUSCAN_DECODE_DEC128, /* numeric, scaled by 10^scale, |value| < 10^38 */
	GPUSCAN_DECODE_DSCALE, /* numeric's display scale -> I32 */
	GPUSCAN_DECODE_TEXT
} GpuScanDecode;

/*
 * One input: column `column` of the layout, decoded into register `reg`.
 * For numeric, digits that do not fit `scale`, NaN and infinities give
 * GPUSCAN_ERROR.  Two inputs may read one column.
 */
typedef struct GpuScanInput
{
	uint8_t decode;	  /* GpuScanDecode */
	uint8_t not_null; /* it is declared so; a hint for what to be fast at */
	uint16_t scale;
	uint16_t column; /* index into GpuScanLayout's columns */
	uint16_t reg;
} GpuScanInput;

/* A constant register. */
typedef struct GpuScanParam
{
	uint16_t reg;
	uint16_t flags; /* 0 or GPUSCAN_NULL */
	uint32_t len;	/* TEXT: bytes at `lo` from the Program's start */
	uint64_t lo;	/* the value's low 64 bits; TEXT: byte offset */
	uint64_t hi;	/* I128: the high 64 bits */
} GpuScanParam;

/*
 * The members of an IN list or the values of a column, without NULLs, as an
 * array at `offset` from the Program's start: int32_t, int64_t, double,
 * uint64_t[2] (low, high) or, for TEXT, uint32_t[2] (offset from the Program's
 * start, length).  Sorted ascending without repetition, but TEXT, which is in no
 * order.
 *
 * FIND_TEXT finds a member by its hash (gs_text_hash), by open addressing: at
 * `slots` lies a uint32_t, the number of slots less one, and behind it that many
 * uint32_t, a power of two: the number of a member + 1, or 0.
 */
typedef struct GpuScanSet
{
	uint16_t cls;	   /* I32, I64, I128, F64 or TEXT */
	uint16_t has_null; /* the list had a NULL */
	uint32_t n;
	uint32_t offset;
	uint32_t slots; /* 0: none */
} GpuScanSet;

/*
 * What PostgreSQL made of each member of a set, in their order, and behind them
 * of NULL: an array at `values` as a set's, of uint8_t for BOOL and float for F32,
 * and one of flags, uint8_t.  So n is at least 1.
 */
typedef struct GpuScanList
{
	uint16_t cls;
	uint16_t pad;
	uint32_t n;
	uint32_t values;
	uint32_t flags;
} GpuScanList;

/* dst = op(a, b, c); `aux` is a set's index for ANY and FIND, a list's for TAKE. */
typedef struct GpuScanInstr
{
	uint16_t op; /* GpuScanOp, ops.h */
	uint16_t dst;
	uint16_t a;
	uint16_t b;
	uint16_t c;
	uint16_t aux;
} GpuScanInstr;

typedef enum GpuScanAggKind
{
	GPUSCAN_AGG_COUNT,		  /* of tuples, or of not-NULL arguments */
	GPUSCAN_AGG_SUM_I64,	  /* I32: cannot overflow in 2^32 tuples */
	GPUSCAN_AGG_SUM_I128,	  /* I64, I128: overflow of 128 bits is an error */
	GPUSCAN_AGG_SQUARES_I128, /* I32, I64, I128: sum and sum of squares */
	GPUSCAN_AGG_SUM_F64,	  /* F32, F64: reproducible sum, fsum.h */
	GPUSCAN_AGG_SQUARES_F64,  /* F32, F64: the same with squares */
	GPUSCAN_AGG_MIN,		  /* I32, I64, I128, F32, F64 */
	GPUSCAN_AGG_MAX,
	GPUSCAN_AGG_BOOL_AND, /* BOOL */
	GPUSCAN_AGG_BOOL_OR,
	GPUSCAN_AGG_BIT_AND, /* I32, I64 */
	GPUSCAN_AGG_BIT_OR,
	GPUSCAN_AGG_COUNT_DISTINCT /* any class */
} GpuScanAggKind;

/*
 * An aggregate.  Tuples whose filter register is not true are not seen; those
 * whose argument is NULL do not count.  Its state lies `offset` bytes into a
 * group row and is one of the structs of cuda/aggregate.h.
 */
typedef struct GpuScanAgg
{
	uint16_t kind;
	uint16_t cls;	 /* the argument's class */
	uint16_t arg;	 /* register, or GPUSCAN_NO_REGISTER for count(*) */
	uint16_t filter; /* register of class BOOL, or GPUSCAN_NO_REGISTER */
	uint32_t offset;
	uint32_t pad;
} GpuScanAgg;

/*
 * A group key.  Its value lies `offset` bytes into a group row: 8 bytes (BOOL
 * and I32 sign-extended to int64_t, I64, F64; F32 as the double it equals), 16
 * for I128 (low, high), and for TEXT uint32_t[2], the offset of the bytes from
 * the start of the result chunk and their length.
 *
 * Equality is PostgreSQL's: NULLs are one group, NaNs are one group.  A
 * negative zero as a key is GPUSCAN_ERROR: which zero is shown depends on
 * PostgreSQL's order.
 */
typedef struct GpuScanKey
{
	uint16_t cls;
	uint16_t reg;
	uint32_t offset;
} GpuScanKey;

/*
 * The header.  All arrays lie behind it at offsets from its start, 8-byte
 * aligned.  Registers are numbered from 0 to nregs - 1; each is written once,
 * by one input, param or instruction, before it is read.
 *
 * A group row, as results return it, is row_size bytes, a multiple of 8:
 * a uint64_t with bit i set where key i is NULL, the keys, the states.
 */
typedef struct GpuScanProgram
{
	uint32_t version;	/* GPUSCAN_PROGRAM_VERSION */
	uint32_t size;		/* of the whole, in bytes */
	uint16_t aggregate; /* 0: a scan, 1: an aggregation */
	uint16_t nregs;
	uint16_t ncolumns;
	uint16_t ninputs;
	uint16_t nparams;
	uint16_t nsets;
	uint16_t ninstrs;
	uint16_t nkeys;
	uint16_t naggs;
	uint16_t filter; /* register of class BOOL, or GPUSCAN_NO_REGISTER */
	uint16_t nlists;
	uint16_t pad;
	uint32_t row_size;
	uint32_t reg_classes; /* uint8_t[nregs], GpuScanClass */
	uint32_t inputs;
	uint32_t params;
	uint32_t sets;
	uint32_t lists;
	uint32_t instrs;
	uint32_t keys;
	uint32_t aggs;
	uint32_t blob; /* texts, members of sets and lists */
} GpuScanProgram;

#define GPUSCAN_ARRAY(p, type, off) ((const type *) ((const char *) (p) + (off)))
#define GPUSCAN_REG_CLASSES(p) GPUSCAN_ARRAY(p, uint8_t, (p)->reg_classes)
#define GPUSCAN_INPUTS(p) GPUSCAN_ARRAY(p, GpuScanInput, (p)->inputs)
#define GPUSCAN_PARAMS(p) GPUSCAN_ARRAY(p, GpuScanParam, (p)->params)
#define GPUSCAN_SETS(p) GPUSCAN_ARRAY(p, GpuScanSet, (p)->sets)
#define GPUSCAN_LISTS(p) GPUSCAN_ARRAY(p, GpuScanList, (p)->lists)
#define GPUSCAN_INSTRS(p) GPUSCAN_ARRAY(p, GpuScanInstr, (p)->instrs)
#define GPUSCAN_KEYS(p) GPUSCAN_ARRAY(p, GpuScanKey, (p)->keys)
#define GPUSCAN_AGGS(p) GPUSCAN_ARRAY(p, GpuScanAgg, (p)->aggs)

/*
 * The physical layout of one relation's tuples: its leading attributes up to
 * the last that the Program needs, dropped ones included.  Flat memory too: a
 * Program over a partitioned table has one layout for each partition.
 */
typedef struct GpuScanAttr
{
	int16_t len;   /* attlen: > 0 fixed, -1 varlena, -2 cstring */
	uint8_t align; /* 1, 2, 4 or 8 bytes */
	uint8_t pad;
	int32_t column; /* index of the Program's column read here, or -1 */
} GpuScanAttr;

/*
 * `missing` is what a tuple with too few attributes has for the attribute
 * (ALTER TABLE ADD COLUMN ... DEFAULT): 0 for NULL, else the offset from the
 * layout's start of the value as a tuple would hold it (a varlena with its
 * header, never toasted, aligned as `align` says).
 *
 * A column may be an expression that PostgreSQL evaluates for each tuple.  It is
 * an attribute behind those of the relation, which only tuples that the backend
 * has formed anew have.
 */
typedef struct GpuScanColumn
{
	uint16_t attnum; /* index into attrs, from 0 */
	uint16_t pad;
	uint32_t missing;
	uint32_t expression; /* 0: none, else the offset of a GpuScanExpression */
} GpuScanColumn;

/* Two expressions with the same identity have the same values in every tuple. */
typedef struct GpuScanExpression
{
	uint8_t identity[32];
	char text[96]; /* for people; terminated, and cut off where it is too long */
} GpuScanExpression;

typedef struct GpuScanLayout
{
	uint32_t size; /* of the whole, in bytes, a multiple of 8 */
	uint16_t natts;
	uint16_t ncolumns;
	uint32_t attrs;	  /* offset of GpuScanAttr[natts] */
	uint32_t columns; /* offset of GpuScanColumn[ncolumns] */
} GpuScanLayout;

#define GPUSCAN_LAYOUT_ATTRS(l) GPUSCAN_ARRAY(l, GpuScanAttr, (l)->attrs)
#define GPUSCAN_LAYOUT_COLUMNS(l) GPUSCAN_ARRAY(l, GpuScanColumn, (l)->columns)

/*
 * True if every offset, register and index of the Program lies in range and
 * every operand has its operation's class, so that no device can be led out
 * of its buffers; else *reason says what is wrong.  check.c.
 */
extern bool gpuscan_program_check(const GpuScanProgram *program, size_t size, const char **reason);
extern bool gpuscan_layout_check(const GpuScanLayout *layout, size_t size,
								 const GpuScanProgram *program, const char **reason);

/*
 * Writes a listing of the Program into buf (of `size` bytes, always
 * terminated), one line for each input, parameter, instruction, key and
 * aggregate.  Returns the length that the whole listing has.  print.c.
 */
extern size_t gpuscan_program_print(const GpuScanProgram *program, char *buf, size_t size);

/* The hash of the Program's shape: parameters' values do not enter. hash.c. */
extern uint64_t gpuscan_program_hash(const GpuScanProgram *program);

#endif /* GPUSCAN_PROGRAM_H */
