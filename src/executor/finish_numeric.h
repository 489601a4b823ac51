/*-------------------------------------------------------------------------
 *
 * finish_numeric.h
 *	  From scaled 128-bit integers to PostgreSQL's numerics; finish.c only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_FINISH_NUMERIC_H
#define GPUSCAN_FINISH_NUMERIC_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/numeric.h"

/*
 * value / 10^scale, shown with dscale digits after the point; those that dscale
 * leaves out must be zeros.  `scratch` is an initialized StringInfo whose
 * contents are lost; the result is palloc'd.
 */
extern Numeric gpuscan_finish_numeric(StringInfo scratch, int128 value, int scale, int dscale);

/*
 * The serialized transition state of a variance over n values, in `scratch`:
 * sum is scaled by 10^scale, squares by 10^(2 * scale).  `poly` says which of
 * PostgreSQL's two formats: that of numeric_poly_deserialize, or that of
 * numeric_deserialize.
 */
extern bytea *gpuscan_finish_squares(StringInfo scratch, bool poly, int64 n, int128 sum,
									 int128 squares, int scale, int dscale);

#endif /* GPUSCAN_FINISH_NUMERIC_H */
