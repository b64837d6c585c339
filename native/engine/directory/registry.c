#include "engine/directory/registry.h"

#include "engine/journal.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_once_t fork_handler;
	wk_engine *engines;
} registry = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_ONCE_INIT, NULL};

/*
 * The child has copies of the descriptors but none of the threads. It lets go of the lock's descriptor, so that the
 * lock ends with the parent, and of the ring's, so that nothing of the parent's I/O lives on with the child; and may
 * not use anything.
 */
static void in_child(void) {
	for (wk_engine *engine = registry.engines; engine != NULL; engine = engine->next_in_registry) {
		atomic_store(&engine->forked, true);
		if (engine->queue != NULL)
			engine->io->operations->queue_forked(engine->io, engine->queue);
		wk_committer_forked(engine);
		if (engine->lock_file != NULL)
			engine->io->operations->close(engine->io, engine->lock_file);
		engine->lock_file = NULL;
		if (engine->superblock_file != NULL) /* it is locked, too */
			engine->io->operations->close(engine->io, engine->superblock_file);
		engine->superblock_file = NULL;
		if (engine->journal_directory.owner != NULL)
			engine->io->operations->close(engine->io, engine->journal_directory.owner);
		engine->journal_directory.owner = NULL;
	}
	registry.engines = NULL;
	pthread_mutex_unlock(&registry.lock);
}

static void before_fork(void) {
	pthread_mutex_lock(&registry.lock);
}
static void in_parent(void) {
	pthread_mutex_unlock(&registry.lock);
}
static void install_fork_handler(void) {
	pthread_atfork(before_fork, in_parent, in_child);
}

void wk_registry_hold_forks(void) {
	before_fork();
}

void wk_registry_let_fork(void) {
	in_parent();
}

static wk_engine *find(const wk_engine *like) {
	for (wk_engine *engine = registry.engines; engine != NULL; engine = engine->next_in_registry)
		if (engine->sharable && engine->device == like->device && engine->inode == like->inode)
			return engine;
	return NULL;
}

wk_engine *wk_registry_enter(wk_engine *engine, bool sharable) {
	pthread_once(&registry.fork_handler, install_fork_handler);
	pthread_mutex_lock(&registry.lock);
	wk_engine *other;
	engine->sharable = sharable;
	while (sharable && (other = find(engine)) != NULL) {
		if (other->ready) {
			other->handles++;
			pthread_mutex_unlock(&registry.lock);
			return other;
		}
		pthread_cond_wait(&registry.changed, &registry.lock);
	}
	engine->next_in_registry = registry.engines;
	registry.engines = engine;
	pthread_mutex_unlock(&registry.lock);
	return NULL;
}

void wk_registry_ready(wk_engine *engine) {
	pthread_mutex_lock(&registry.lock);
	engine->ready = true;
	pthread_cond_broadcast(&registry.changed);
	pthread_mutex_unlock(&registry.lock);
}

bool wk_registry_last(wk_engine *engine) {
	pthread_mutex_lock(&registry.lock);
	bool last = --engine->handles == 0;
	if (last)
		engine->ready = false;
	pthread_mutex_unlock(&registry.lock);
	return last;
}

bool wk_registry_is_written_here(const wk_engine *engine) {
	bool here = false;
	pthread_mutex_lock(&registry.lock);
	for (const wk_engine *other = registry.engines; other != NULL; other = other->next_in_registry)
		here |= other != engine && other->lock_file != NULL && other->device == engine->device &&
		        other->inode == engine->inode;
	pthread_mutex_unlock(&registry.lock);
	return here;
}

void wk_registry_set_aside(wk_engine *engine) {
	pthread_mutex_lock(&registry.lock);
	engine->sharable = false;
	pthread_cond_broadcast(&registry.changed);
	pthread_mutex_unlock(&registry.lock);
}

void wk_registry_leave(wk_engine *engine) {
	pthread_mutex_lock(&registry.lock);
	for (wk_engine **at = &registry.engines; *at != NULL; at = &(*at)->next_in_registry)
		if (*at == engine) {
			*at = engine->next_in_registry;
			break;
		}
	pthread_cond_broadcast(&registry.changed);
	pthread_mutex_unlock(&registry.lock);
}
