/* reply.c: answers; each releases what its request held of the budgets. */
#include <stdlib.h>

#include "server/service.h"

void wk_reply_begin(const wk_owed *owed, uint32_t code, wk_wire_reply *reply) {
	wk_wire_request request = {.version = owed->version,
	                           .header_version = owed->header_version,
	                           .operation = owed->operation,
	                           .txn_id = owed->txn_id,
	                           .ledger_id = owed->ledger_id,
	                           .entry_id = owed->entry_id};
	wk_wire_reply_begin(&request, code, reply);
}

void wk_reply_put(wk_service *service, wk_peer *peer, const wk_wire_reply *reply, const uint8_t *body,
                  wk_read_job *owner) {
	if (peer->gone || peer->closing)
		return;
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX];
	uint64_t before = peer->filling.total;
	bool put = wk_outbox_put(&peer->filling, head, wk_wire_reply_encode(reply, head));
	if (put && body != NULL && reply->body_size > 0)
		put = owner != NULL && reply->body_size > WK_COPY_MAX
		          ? wk_outbox_refer(&peer->filling, body, (size_t)reply->body_size, owner)
		          : wk_outbox_put(&peer->filling, body, (size_t)reply->body_size);
	service->load.reply_bytes += peer->filling.total - before;
	wk_peer_list(service, peer);
	if (!put)
		wk_peer_close(service, peer); /* no memory: half an answer is none */
}

void wk_owed_release(wk_service *service, const wk_owed *owed, uint32_t code) {
	wk_server_stats *stats = &service->stats;
	if (owed->operation < WK_SERVER_OPERATIONS) {
		stats->requests[owed->operation]++;
		stats->failures[owed->operation] += code != WK_WIRE_OK;
	}
	stats->too_many_requests += code == WK_WIRE_TOO_MANY_REQUESTS;
	uint64_t taken = service->now_ns - owed->began_ns;
	if (owed->operation == WK_WIRE_ADD)
		wk_histogram_count(&stats->add_ns, taken);
	else if (owed->operation == WK_WIRE_READ || owed->operation == WK_WIRE_BATCH_READ)
		wk_histogram_count(&stats->read_ns, taken);
	service->owed_count--;
	wk_peer_release(owed->peer);
}

void wk_reply_code(wk_service *service, const wk_owed *owed, uint32_t code) {
	wk_wire_reply reply;
	wk_reply_begin(owed, code, &reply);
	wk_reply_put(service, owed->peer, &reply, NULL, NULL);
	wk_owed_release(service, owed, code);
}
