/* log_table.h: logs by name and by id: two tables of pointers, open addressing. Private; under the engine's lock. */
#ifndef WK_ENGINE_LOG_TABLE_H
#define WK_ENGINE_LOG_TABLE_H
#include "engine/catalogue/catalogue.h"

/* Room for one more; false: no memory. */
bool wk_log_table_reserve(wk_engine *engine);
void wk_log_table_insert(wk_engine *engine, wk_log_state *log); /* both */
/* By its id only: a log whose name is gone. */
void wk_log_table_insert_id(wk_engine *engine, wk_log_state *log);
/* In both: `to` stands where `from` stood; it has its id and its name, or will have them before anybody looks. */
void wk_log_table_replace(wk_engine *engine, const wk_log_state *from, wk_log_state *to);
void wk_log_table_insert_name(wk_engine *engine, wk_log_state *log);
void wk_log_table_remove_name(wk_engine *engine, wk_log_state *log); /* keeps the id, for handles that are open */
void wk_log_table_remove_id(wk_engine *engine, wk_log_state *log);
void wk_log_table_free(wk_engine *engine);
#endif
