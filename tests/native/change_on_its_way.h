/*
 * change_on_its_way.h: waiting until another thread's change of the catalogue is accepted, on a disk that does not let it
 * become durable. However slow the machine is, what is asked from then on is asked behind it.
 */
#ifndef CHANGE_ON_ITS_WAY_H
#define CHANGE_ON_ITS_WAY_H
#include "check.h"
#include "engine/directory/handles.h"

static inline void until_a_change_is_on_its_way(wk_namespace *ns) {
	for (bool is_there = false; !is_there; nap_ms(1)) {
		wk_engine_lock(ns->engine);
		is_there = ns->engine->catalogue_ticket > ns->engine->durable;
		wk_engine_unlock(ns->engine);
	}
}
#endif
