/* net_table.c: the connections of a wk_net, found by their numbers. */
#include "io/net_table.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static int make_slab(wk_net_table *table);

wk_net_connection *wk_net_table_take(wk_net_table *table, int *error) {
	*error = table->count >= table->max ? -EMFILE : table->free == NULL ? make_slab(table) : 0;
	if (*error)
		return NULL;
	wk_net_connection *connection = table->free;
	table->free = connection->next;
	table->count++;
	*connection = (wk_net_connection){
	    .id = connection->id + WK_NET_CONNECTIONS_MAX,
	    .fd = -1,
	    .attend_next = connection->attend_next, /* whoever had the slot before may have left it on that list */
	    .attend_listed = connection->attend_listed,
	};
	return connection;
}

/* The slot keeps its last number, from which the next is made; `state` says that nobody has it now. */
void wk_net_table_give_back(wk_net_table *table, wk_net_connection *connection) {
	assert(connection->state != WK_NET_FREE && connection->fd < 0 && connection->send == NULL);
	connection->state = WK_NET_FREE;
	connection->next = table->free;
	table->free = connection;
	table->count--;
}

static int make_slab(wk_net_table *table) {
	uint32_t slab_index = table->made / WK_NET_SLAB_SIZE;
	if (slab_index == table->slabs_size) {
		uint32_t size = table->slabs_size == 0 ? 16 : table->slabs_size * 2;
		wk_net_connection **slabs = realloc(table->slabs, size * sizeof(wk_net_connection *));
		if (slabs == NULL)
			return -ENOMEM;
		table->slabs = slabs;
		table->slabs_size = size;
	}
	wk_net_connection *slab = calloc(WK_NET_SLAB_SIZE, sizeof *slab);
	if (slab == NULL)
		return -ENOMEM;
	table->slabs[slab_index] = slab;
	for (uint32_t i = WK_NET_SLAB_SIZE; i-- > 0;) {
		slab[i].id = table->made + i;
		slab[i].next = table->free;
		table->free = &slab[i];
	}
	table->made += WK_NET_SLAB_SIZE;
	return 0;
}

wk_net_connection *wk_net_table_find(const wk_net_table *table, wk_connection_id id) {
	uint32_t slot = wk_net_slot(id);
	if (slot >= table->made)
		return NULL;
	wk_net_connection *connection = wk_net_table_at(table, slot);
	return connection->id == id && connection->state != WK_NET_FREE ? connection : NULL;
}

wk_net_connection *wk_net_table_at(const wk_net_table *table, uint32_t slot) {
	assert(slot < table->made);
	return &table->slabs[slot / WK_NET_SLAB_SIZE][slot % WK_NET_SLAB_SIZE];
}

void wk_net_table_free(wk_net_table *table) {
	for (uint32_t i = 0; i < table->made / WK_NET_SLAB_SIZE; i++)
		free(table->slabs[i]);
	free(table->slabs);
}
