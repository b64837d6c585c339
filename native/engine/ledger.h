/*
 * ledger.h: what the other rooms of the engine may use of engine/ledger/. Private.
 *
 * Ledger stores: entries and state records whose ids the user chooses.
 */
#ifndef WK_ENGINE_ROOM_LEDGER_H
#define WK_ENGINE_ROOM_LEDGER_H
#include "engine/ledger/ledger_block.h"  /* entries and state records in a block */
#include "engine/ledger/ledger_delete.h" /* deleted ledgers */
#include "engine/ledger/ledger_state.h"  /* fence, master key, explicit LAC */
#endif
