/*
 * faulty_crash.c: what is left of a simulated disk when the power goes, by a seed.
 *
 * For each file a mood is drawn first. With a fair coin for each write, an image in which everything or nothing
 * survived would hardly ever come up, and these are the ones that find a missing sync.
 */
#include "sim/faulty_disk.h"
#include <stdlib.h>

enum mood { MOOD_ALL, MOOD_NOTHING, MOOD_SOME, MOOD_SOME_TORN, MOODS };

static void crash_node(wk_disk_node *node, uint64_t seed);
static void crash_names(wk_disk *disk, uint64_t seed);

void wk_disk_crash(wk_disk *disk, uint64_t seed) {
	for (size_t i = 0; i < disk->nodes_count; i++)
		crash_node(&disk->nodes[i], wk_faulty_chance(seed, i));
	crash_names(disk, wk_faulty_chance(seed, disk->nodes_count));
}

/*
 * A subset, in the order of completion. That is as good as any order: where two writes overlap, the older on top of the
 * newer is what the newer leaves when it is torn.
 */
static void crash_node(wk_disk_node *node, uint64_t seed) {
	uint64_t random = seed;
	enum mood mood = (enum mood)(wk_faulty_random(&random) % MOODS);
	for (size_t i = 0; i < node->pending_count; i++) {
		const wk_pending *pending = &node->pending[i];
		uint64_t chance = wk_faulty_random(&random);
		bool survives = mood == MOOD_ALL || (mood != MOOD_NOTHING && chance & 1);
		bool torn = mood == MOOD_SOME_TORN && chance & 2 && !pending->is_resize;
		if (survives && torn)
			wk_pending_land_torn(pending, &node->durable, chance);
		else if (survives)
			wk_pending_land(pending, &node->durable);
	}
	node->pending_count = 0;
}

/* Of each directory's changes a prefix survives; a rename between two directories only where both have come that far.
 */
static void crash_names(wk_disk *disk, uint64_t seed) {
	size_t *left = wk_faulty_allocate(disk->nodes_count, sizeof *left);
	for (size_t i = 0; i < disk->changes_count; i++) {
		left[disk->changes[i]->from.directory] += disk->changes[i]->from.text[0] != 0;
		left[disk->changes[i]->to.directory] += disk->changes[i]->to.text[0] != 0;
	}
	for (size_t i = 0; i < disk->nodes_count; i++)
		left[i] = wk_faulty_chance(seed, i) % (left[i] + 1);
	for (size_t i = 0; i < disk->changes_count; i++) {
		const wk_name_change *change = disk->changes[i];
		bool takes = change->from.text[0], sets = change->to.text[0];
		bool both = takes && sets && change->from.directory == change->to.directory;
		size_t from_needs = both ? 2 : 1;
		if ((takes && left[change->from.directory] < from_needs) || (sets && left[change->to.directory] == 0)) {
			if (takes)
				left[change->from.directory] = 0;
			if (sets)
				left[change->to.directory] = 0;
			continue;
		}
		wk_names_change(&disk->names, change);
		if (takes)
			left[change->from.directory]--;
		if (sets)
			left[change->to.directory]--;
	}
	disk->changes_count = 0;
	free(left);
}
