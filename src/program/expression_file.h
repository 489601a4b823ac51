/*-------------------------------------------------------------------------
 *
 * expression_file.h
 *	  Expressions that are cached columns, on disk; see expression_file.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUSCAN_EXPRESSION_FILE_H
#define GPUSCAN_EXPRESSION_FILE_H

#include "gpuscan.h"

#include "lib/stringinfo.h"
#include "nodes/primnodes.h"
#include "utils/rel.h"

/* Room for the hexadecimal digits of an identity */
#define GPUSCAN_IDENTITY_DIGITS 64

/*
 * Writes a file of the text, which is on disk then if `sync`.  False with errno; a part of
 * it may be there.
 */
extern bool gpuscan_write_text(const char *path, const StringInfoData *text, bool sync);

/* Sees to it that there is a file of one of rel's own, of that identity. */
extern void gpuscan_expression_file_keep(Relation rel, Expr *expr, const uint8 *identity);

/* The expression, of rel's own; NULL if there is none, or not of the relation as it is now. */
extern Expr *gpuscan_expression_file_read(Relation rel, const uint8 *identity);

/*
 * Removes files that have not been kept for some time, but for those of n identities, which it
 * sorts.
 */
extern void gpuscan_expression_file_sweep(uint8 *identities, uint32 n);

#endif /* GPUSCAN_EXPRESSION_FILE_H */
