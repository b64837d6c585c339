/*
 * bare_loop DIRECTORY PORT_FILE [grows]: a socket, a CRC and a durable write, and nothing else: what a bookie is
 * measured against. It answers adds of protocol v2, and keeps nothing that could be read again.
 *
 * One thread and one ring. What is received while a write is under way goes together with the next one, into a file that
 * was really written before (O_DIRECT, RWF_DSYNC), from its beginning again when it is full. With `grows`, into space that
 * was only allocated, the only kind that one has who keeps what was written and writes nothing twice: each sync waits for
 * the file system's journal, too.
 */
#include "bench.h"
#include "walkeeper/core.h"
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>

enum { FILE_SIZE = 512 << 20, BLOCK_ROOM = 4 << 20, PAGE = 4096, IN_SIZE = 1 << 20, CONNECTIONS_MAX = 16384 };
enum { FRAME_HEAD = 28, REPLY_SIZE = 28, ENTRY_MIN = 32 }; /* length, header and key; length, header, code and ids */
enum kind { ACCEPT, RECEIVE, SEND, WRITE };

typedef struct replies {
	uint8_t *bytes;
	size_t size, room;
} replies;

typedef struct connection {
	int fd;
	uint8_t *in;
	size_t in_size, sent;
	replies waiting[2], out, next; /* for each block's write; being sent; to be sent then */
} connection;

typedef struct indices {
	uint32_t at[CONNECTIONS_MAX], count;
} indices;

static connection *connections[CONNECTIONS_MAX];
static uint32_t connections_count;
static indices answered[2], held; /* whom a block's write answers; for whom there was no room in the block */
static struct io_uring ring;
static uint8_t *blocks[2];
static size_t block_size;
static unsigned filling;
static bool writing, grows;
static uint64_t file_offset;
static int file, listener;
static volatile uint32_t crc; /* or nobody would compute it */

static struct io_uring_sqe *entry_for(enum kind kind, uint32_t index) {
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	if (sqe == NULL) {
		io_uring_submit(&ring);
		sqe = io_uring_get_sqe(&ring);
	}
	if (sqe == NULL)
		bench_die("the ring takes no more");
	sqe->user_data = (uint64_t)index << 2 | kind;
	return sqe;
}

static void add_replies(replies *to, const uint8_t *bytes, size_t size) {
	if (to->size + size > to->room) {
		to->room = (to->size + size) * 2;
		if ((to->bytes = realloc(to->bytes, to->room)) == NULL)
			bench_die("no memory");
	}
	memcpy(to->bytes + to->size, bytes, size);
	to->size += size;
}

static void put_index(indices *to, uint32_t index) {
	to->at[to->count++] = index;
}

static void receive(uint32_t index) {
	connection *from = connections[index];
	io_uring_prep_recv(entry_for(RECEIVE, index), from->fd, from->in + from->in_size, IN_SIZE - from->in_size, 0);
}

/* All whole frames, as far as the block has room; then the next receive. */
static void take_frames(uint32_t index) {
	connection *from = connections[index];
	size_t done = 0;
	bool full = false;
	while (from->in_size - done >= 4) {
		const uint8_t *frame = from->in + done;
		uint32_t size;
		memcpy(&size, frame, 4);
		size = be32toh(size) + 4;
		if (size < FRAME_HEAD + ENTRY_MIN || size > IN_SIZE || (from->in_size - done > 5 && frame[5] != 1))
			bench_die("this is no add of protocol v2");
		if (from->in_size - done < size)
			break;
		full = block_size + size - FRAME_HEAD > BLOCK_ROOM;
		if (full)
			break;
		crc = wk_crc32c(frame + FRAME_HEAD, size - FRAME_HEAD);
		memcpy(blocks[filling] + block_size, frame + FRAME_HEAD, size - FRAME_HEAD);
		block_size += size - FRAME_HEAD;
		uint8_t reply[REPLY_SIZE] = {0, 0, 0, REPLY_SIZE - 4, 2, 1};
		memcpy(reply + 12, frame + FRAME_HEAD, 16);
		if (from->waiting[filling].size == 0)
			put_index(&answered[filling], index);
		add_replies(&from->waiting[filling], reply, sizeof reply);
		done += size;
	}
	memmove(from->in, from->in + done, from->in_size - done);
	from->in_size -= done;
	if (full)
		put_index(&held, index);
	else
		receive(index);
}

/* The file's space stays its own, and is as if it was never written: one change of the file system's metadata. */
static void take_writing_back(void) {
	if (fallocate(file, FALLOC_FL_ZERO_RANGE, 0, FILE_SIZE) != 0)
		bench_die("cannot take the writing of the file's space back: %s", strerror(errno));
}

static void write_block(void) {
	if (writing || block_size == 0)
		return;
	size_t size = (block_size + PAGE - 1) / PAGE * PAGE;
	if (file_offset + size > FILE_SIZE) {
		file_offset = 0;
		if (grows)
			take_writing_back();
	}
	struct io_uring_sqe *sqe = entry_for(WRITE, (uint32_t)size);
	io_uring_prep_write(sqe, file, blocks[filling], (unsigned)size, file_offset);
	sqe->rw_flags = RWF_DSYNC;
	file_offset += size;
	filling = !filling;
	block_size = 0;
	writing = true;
}

static void send_replies(uint32_t index) {
	connection *to = connections[index];
	if (to->out.size == 0 && to->next.size > 0) {
		replies empty = to->out;
		to->out = to->next;
		to->next = empty;
	} else if (to->sent == to->out.size) {
		return;
	}
	io_uring_prep_send(entry_for(SEND, index), to->fd, to->out.bytes + to->sent, to->out.size - to->sent, MSG_NOSIGNAL);
}

/* Nobody is looked at whom it does not concern: there may be ten thousand. */
static void written(void) {
	writing = false;
	indices *done = &answered[!filling];
	for (uint32_t i = 0; i < done->count; i++) {
		connection *to = connections[done->at[i]];
		replies *waiting = &to->waiting[!filling];
		bool idle = to->out.size == 0;
		add_replies(&to->next, waiting->bytes, waiting->size);
		waiting->size = 0;
		if (idle && to->fd >= 0)
			send_replies(done->at[i]);
	}
	done->count = 0;
	uint32_t count = held.count;
	held.count = 0;
	for (uint32_t i = 0; i < count; i++)
		take_frames(held.at[i]); /* it is put there once more at most, and not behind i */
}

static void accept_all(void) {
	io_uring_prep_multishot_accept(entry_for(ACCEPT, 0), listener, NULL, NULL, SOCK_CLOEXEC);
}

static void answer(const struct io_uring_cqe *cqe) {
	uint32_t index = (uint32_t)(cqe->user_data >> 2);
	int result = cqe->res;
	switch ((enum kind)(cqe->user_data & 3)) {
	case ACCEPT:
		if (result < 0 || connections_count == CONNECTIONS_MAX)
			bench_die("cannot accept: %s", strerror(-result));
		setsockopt(result, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
		connections[connections_count] = bench_allocate(sizeof(connection));
		connections[connections_count]->fd = result;
		connections[connections_count]->in = bench_allocate(IN_SIZE);
		receive(connections_count++);
		if (!(cqe->flags & IORING_CQE_F_MORE))
			accept_all();
		break;
	case RECEIVE:
		if (result <= 0) {
			close(connections[index]->fd);
			connections[index]->fd = -1;
			break;
		}
		connections[index]->in_size += (size_t)result;
		take_frames(index);
		break;
	case SEND:
		if (result < 0)
			break;
		connections[index]->sent += (size_t)result;
		if (connections[index]->sent == connections[index]->out.size)
			connections[index]->sent = connections[index]->out.size = 0;
		if (connections[index]->fd >= 0)
			send_replies(index);
		break;
	case WRITE:
		if (result != (int)index)
			bench_die("a write came to %d: %s", result, strerror(result < 0 ? -result : EIO));
		written();
	}
}

static void make_file(const char *directory) {
	char path[4096];
	snprintf(path, sizeof path, "%s/bare", directory);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
	if (file < 0)
		bench_die("%s: %s", path, strerror(errno));
	for (int i = 0; i < 2; i++)
		if ((blocks[i] = aligned_alloc(PAGE, BLOCK_ROOM)) == NULL)
			bench_die("no memory");
		else
			bench_fill(blocks[i], BLOCK_ROOM);
	for (off_t at = 0; at < FILE_SIZE; at += BLOCK_ROOM)
		if (pwrite(file, blocks[0], BLOCK_ROOM, at) != BLOCK_ROOM)
			bench_die("%s: %s", path, strerror(errno));
	if (fsync(file) != 0)
		bench_die("%s: %s", path, strerror(errno));
	if (grows)
		take_writing_back();
}

static int listen_and_tell(const char *port_file) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 1024) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		bench_die("cannot listen: %s", strerror(errno));
	char path[4096];
	snprintf(path, sizeof path, "%s.new", port_file);
	FILE *out = fopen(path, "w");
	if (out == NULL || fprintf(out, "%d\n", ntohs(address.sin_port)) < 0 || fclose(out) != 0 ||
	    rename(path, port_file) != 0)
		bench_die("%s: %s", port_file, strerror(errno));
	return fd;
}

int main(int argc, char **argv) {
	grows = argc == 4 && strcmp(argv[3], "grows") == 0;
	if (argc != 3 && !grows)
		bench_die("usage: bare_loop DIRECTORY PORT_FILE [grows]");
	make_file(argv[1]);
	int error = io_uring_queue_init(4096, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	if (error < 0)
		bench_die("no ring: %s", strerror(-error));
	listener = listen_and_tell(argv[2]);
	accept_all();
	for (;;) {
		error = io_uring_submit_and_wait(&ring, 1);
		if (error < 0 && error != -EINTR)
			bench_die("the ring: %s", strerror(-error));
		struct io_uring_cqe *cqe;
		unsigned head, seen = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			seen++;
			answer(cqe);
		}
		io_uring_cq_advance(&ring, seen);
		write_block();
	}
}
