/*
 * catalogue.h: what the other rooms of the engine may use of engine/catalogue/. Private.
 *
 * The logs of a directory: names, segments, truncation points, cursors, accepted losses; how they come back from ledger 0, and what deletes old segments.
 */
#ifndef WK_ENGINE_ROOM_CATALOGUE_H
#define WK_ENGINE_ROOM_CATALOGUE_H
#include "engine/catalogue/catalogue.h"          /* logs and segments in memory, and changes of them */
#include "engine/catalogue/catalogue_recovery.h" /* from ledger 0 to the catalogue */
#include "engine/catalogue/gap.h"                /* accepted losses of a log */
#include "engine/catalogue/log_table.h"          /* the table of logs, for a follower's new view */
#include "engine/catalogue/retention.h"          /* deletes by age and size; the keeper's */
#include "engine/catalogue/snapshot.h"           /* the catalogue as entries of ledger 0; the keeper's */
#endif
