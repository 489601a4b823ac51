/*-------------------------------------------------------------------------
 *
 * compiler.h
 *	  Inside the compiler: compile.c drives, expr.c walks expressions,
 *	  decimal.c does numeric, build.c collects the Program's parts.
 *
 * Every function that can find something not eligible returns false and leaves
 * why in Compiler.reason.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_COMPILER_H
#define GPUSCAN_COMPILER_H

#include "access/htup_details.h"
#include "lib/stringinfo.h"
#include "program/compile.h"
#include "program/eligible.h"

/*
 * An expression's value while compiling: its register and, for numeric, how the
 * register's integer is to be read.  The value is reg / 10^scale, and
 * |reg| < 10^digits.  Its display scale is `scale`, unless it varies from tuple
 * to tuple: then the I32 register `dscale` holds it.
 */
typedef struct GpuScanValue
{
	uint16 reg;
	GpuScanClass cls;
	bool numeric;
	bool null_constant; /* NULL, which has no scale */
	bool constant;		/* numeric: `decimal` is its value */
	int scale;
	int digits;
	uint16 dscale; /* or GPUSCAN_NO_REGISTER */
	int128 decimal;
} GpuScanValue;

/* A column for whose values PostgreSQL evaluates expressions, see map.c */
typedef struct GpuScanValuedColumn
{
	AttrNumber attnum;
	uint16 at; /* register: which value it is */
	GpuScanColumnValues values;
} GpuScanValuedColumn;

typedef struct GpuScanCompiler
{
	const GpuScanCompileInput *input;
	const char *reason;
	List *known;					/* of expressions already compiled, and ... */
	List *known_values;				/* ... their GpuScanValues */
	List *valued;					/* GpuScanValuedColumns */
	List *expressions;				/* that are columns */
	const GpuScanValue *case_value; /* what a CaseTestExpr stands for */
	StringInfoData reg_classes;
	StringInfoData inputs;
	StringInfoData params;
	StringInfoData sets;
	StringInfoData lists;
	StringInfoData instrs;
	StringInfoData blob;
	int nregs;
	int ncolumns;
	AttrNumber attnums[MaxTupleAttributeNumber];
} GpuScanCompiler;

/* How far a Program was collected */
typedef struct GpuScanBuildMark
{
	int reg_classes;
	int inputs;
	int params;
	int sets;
	int lists;
	int instrs;
	int blob;
	int nregs;
	int ncolumns;
	int known;
	int valued;
	int expressions;
} GpuScanBuildMark;

/* build.c */
extern GpuScanBuildMark gpuscan_build_mark(const GpuScanCompiler *c);
extern void gpuscan_build_rewind(GpuScanCompiler *c, const GpuScanBuildMark *mark);
extern uint16 gpuscan_build_register(GpuScanCompiler *c, GpuScanClass cls);
extern uint16
gpuscan_build_input(GpuScanCompiler *c, AttrNumber attnum, GpuScanDecode decode, int scale);
extern uint16
gpuscan_build_instr(GpuScanCompiler *c, int op, uint16 a, uint16 b, uint16 cc, uint16 aux);
extern uint16 gpuscan_build_param(GpuScanCompiler *c, GpuScanClass cls, bool isnull, int128 value);
extern uint16 gpuscan_build_text(GpuScanCompiler *c, const char *bytes, uint32 len);
extern uint16 gpuscan_build_set(GpuScanCompiler *c, GpuScanClass cls, bool has_null, uint32 n,
								uint32 offset, uint32 slots);
extern uint16
gpuscan_build_list(GpuScanCompiler *c, GpuScanClass cls, uint32 n, uint32 values, uint32 flags);
extern uint32 gpuscan_build_align(GpuScanCompiler *c);
extern GpuScanProgram *
gpuscan_build_program(GpuScanCompiler *c, uint16 filter, const GpuScanKey *keys, int nkeys,
					  const GpuScanAgg *aggs, int naggs, uint32 row_size);

/* An instruction with one, two or three operands; its register. */
#define emit1(c, op, a) gpuscan_build_instr(c, op, a, 0, 0, 0)
#define emit2(c, op, a, b) gpuscan_build_instr(c, op, a, b, 0, 0)
#define emit3(c, op, a, b, cc) gpuscan_build_instr(c, op, a, b, cc, 0)

/* expr.c */
extern bool gpuscan_expr_compile(GpuScanCompiler *c, Expr *expr, GpuScanValue *value);
extern bool gpuscan_expr_compare(GpuScanCompiler *c, GpuScanComparison comparison, GpuScanValue a,
								 GpuScanValue b, uint16 *reg);
extern bool gpuscan_expr_deterministic(GpuScanCompiler *c, Oid collation);
extern bool gpuscan_expr_column(GpuScanCompiler *c, AttrNumber attnum, Oid type, int32 typmod,
								GpuScanValue *value);
extern bool
gpuscan_compile_fail(GpuScanCompiler *c, const char *fmt, ...) pg_attribute_printf(2, 3);

/* map.c */
extern bool gpuscan_map_compile(GpuScanCompiler *c, Expr *expr, GpuScanValue *value);

/* expression_column.c */
extern bool gpuscan_expression_compile(GpuScanCompiler *c, Expr *expr, GpuScanValue *value);

/* values.c */
extern const Var *gpuscan_value_column(Expr *expr);
extern bool gpuscan_value_of_rows(Expr *expr, Index varno);
extern int128 gpuscan_value_bits(Oid type, Datum datum);
extern uint32 gpuscan_value_texts(GpuScanCompiler *c, const Datum *datums, uint32 n, bool trim);
extern bool
gpuscan_value_of_datum(GpuScanCompiler *c, Oid type, Datum datum, bool isnull, GpuScanValue *value);
extern bool gpuscan_value_of_parameter(GpuScanCompiler *c, Expr *expr, GpuScanValue *value);
extern bool
gpuscan_value_datum(GpuScanCompiler *c, Expr *expr, Datum *datum, bool *isnull, bool *known);
extern bool gpuscan_value_set(GpuScanCompiler *c, ScalarArrayOpExpr *expr,
							  const GpuScanValue *scalar, GpuScanClass cls, uint16 *set);

/* decimal.c */
extern bool gpuscan_decimal_column(GpuScanCompiler *c, AttrNumber attnum, Oid type, int32 typmod,
								   GpuScanValue *value);
extern bool gpuscan_decimal_parse(Datum numeric, int128 *decimal, int *scale);
extern void
gpuscan_decimal_constant(GpuScanCompiler *c, int128 decimal, int scale, GpuScanValue *value);
extern bool gpuscan_decimal_rescale(GpuScanCompiler *c, GpuScanValue *value, int scale);
extern void gpuscan_decimal_widen(GpuScanCompiler *c, GpuScanValue *value);
extern bool gpuscan_decimal_unify(GpuScanCompiler *c, GpuScanValue **values, int n);
extern bool gpuscan_decimal_arithmetic(GpuScanCompiler *c, GpuScanAction action, GpuScanValue a,
									   GpuScanValue b, GpuScanValue *value);
extern void gpuscan_decimal_sign(GpuScanCompiler *c, GpuScanAction action, GpuScanValue *value);
extern bool gpuscan_decimal_typmod(GpuScanCompiler *c, int32 typmod, GpuScanValue *value);
extern void gpuscan_decimal_of_integer(GpuScanCompiler *c, GpuScanValue *value);
extern void gpuscan_decimal_to_integer(GpuScanCompiler *c, GpuScanValue *value);
extern void gpuscan_decimal_to_float(GpuScanCompiler *c, GpuScanValue *value);
extern uint16 gpuscan_decimal_dscale(GpuScanCompiler *c, const GpuScanValue *value);
extern int128 gpuscan_power_of_ten(int n);

#endif /* GPUSCAN_COMPILER_H */
