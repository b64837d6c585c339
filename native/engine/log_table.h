/* log_table.h: logs by name and by id: two tables of pointers, open addressing. Private; under the engine's lock. */
#ifndef WK_ENGINE_LOG_TABLE_H
#define WK_ENGINE_LOG_TABLE_H
#include "engine/catalogue.h"

/* Room for one more; false: no memory. */
bool wk_log_table_reserve(wk_engine *engine);
void wk_log_table_insert(wk_engine *engine, wk_log_state *log); /* both */
void wk_log_table_insert_name(wk_engine *engine, wk_log_state *log);
void wk_log_table_remove_name(wk_engine *engine, wk_log_state *log); /* keeps the id, for handles that are open */
void wk_log_table_remove_id(wk_engine *engine, wk_log_state *log);
void wk_log_table_free(wk_engine *engine);
#endif
