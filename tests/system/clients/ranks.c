/* A program of MPI that checks every byte: messages between two ranks and more, collectives, one-sided access.
 *
 * In C, because Debian's MPI libraries share no binary interface: test_frameworks.py compiles it for each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long errors;

static unsigned char byte_of(int from, int to, int tag, size_t at) {
  return (unsigned char)(from * 31 + to * 17 + tag * 7 + (int)(at * 2654435761u >> 13));
}

static void fill(unsigned char* data, size_t bytes, int from, int to, int tag) {
  for (size_t i = 0; i < bytes; ++i) data[i] = byte_of(from, to, tag, i);
}

static void check(const unsigned char* data, size_t bytes, int from, int to, int tag) {
  for (size_t i = 0; i < bytes; ++i) errors += data[i] != byte_of(from, to, tag, i);
}

/* Every size crosses a border of some protocol: inline, eager, rendezvous. */
static void messages(void) {
  static const size_t sizes[] = {0, 1, 8, 61, 200, 1023, 4096, 8193, 65536, 262143, 1 << 20};
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); ++s) {
    const size_t bytes = sizes[s];
    unsigned char *out = malloc(bytes + 1), *in = calloc(bytes + 1, 1);
    fill(out, bytes, rank, next, (int)s);
    MPI_Status status;
    MPI_Sendrecv(out, (int)bytes, MPI_BYTE, next, (int)s, in, (int)bytes, MPI_BYTE, before, (int)s, MPI_COMM_WORLD, &status);
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    errors += count != (int)bytes;
    check(in, bytes, before, rank, (int)s);
    free(out);
    free(in);
  }
}

/* Many at once; the receiver takes them by their tags, in the reverse order. */
static void many_messages(void) {
  enum { kMany = 64, kBytes = 3000 };
  static unsigned char out[kMany][kBytes], in[kMany][kBytes];
  MPI_Request requests[2 * kMany];
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (int i = 0; i < kMany; ++i) {
    fill(out[i], kBytes, rank, next, i);
    MPI_Isend(out[i], kBytes, MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = kMany - 1; i >= 0; --i) {
    MPI_Irecv(in[i], kBytes, MPI_BYTE, before, i, MPI_COMM_WORLD, &requests[kMany + i]);
  }
  MPI_Waitall(2 * kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i) check(in[i], kBytes, before, rank, i);
}

static void collectives(int count) {
  int *mine = malloc(sizeof(int) * (size_t)(count * ranks)), *all = malloc(sizeof(int) * (size_t)(count * ranks));
  for (int root = 0; root < ranks; ++root) {
    for (int i = 0; i < count; ++i) mine[i] = rank == root ? i * 3 + root : -1;
    MPI_Bcast(mine, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) errors += mine[i] != i * 3 + root;
  }
  for (int i = 0; i < count; ++i) mine[i] = i + rank;
  MPI_Allreduce(mine, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) errors += all[i] != i * ranks + ranks * (ranks - 1) / 2;
  MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < count; ++i) errors += all[r * count + i] != i + r;
  }
  for (int i = 0; i < count * ranks; ++i) mine[i] = rank * 100000 + i;
  MPI_Alltoall(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) {
    for (int i = 0; i < count; ++i) errors += all[r * count + i] != r * 100000 + rank * count + i;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free(mine);
  free(all);
}

/* Put, get and atomics: the next rank's window, by fences and by locks. */
static void one_sided(void) {
  enum { kLongs = 20000 };
  long* memory = NULL;
  MPI_Win window;
  MPI_Win_allocate((kLongs + 2) * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memset(memory, 0, (kLongs + 2) * sizeof(long));
  long *out = malloc(kLongs * sizeof(long)), *in = calloc(kLongs, sizeof(long));
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (long i = 0; i < kLongs; ++i) out[i] = i * 5 + rank;
  MPI_Win_fence(0, window);
  MPI_Put(out, kLongs, MPI_LONG, next, 0, kLongs, MPI_LONG, window);
  MPI_Win_fence(0, window);
  for (long i = 0; i < kLongs; ++i) errors += memory[i] != i * 5 + before;
  MPI_Win_fence(0, window);
  MPI_Get(in, kLongs, MPI_LONG, next, 0, kLongs, MPI_LONG, window);
  MPI_Win_fence(0, window);
  for (long i = 0; i < kLongs; ++i) errors += in[i] != i * 5 + rank;

  const long one = 1;
  long seen = 0;
  for (int i = 0; i < 100; ++i) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Fetch_and_op(&one, &seen, MPI_LONG, 0, kLongs, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    errors += seen < i || seen >= 100 * ranks;
  }
  const long expected = 0, mark = rank + 1;
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Compare_and_swap(&mark, &expected, &seen, MPI_LONG, 0, kLongs + 1, window);
  MPI_Win_unlock(0, window);
  const long won = seen == 0;
  long winners = 0;
  MPI_Allreduce(&won, &winners, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  errors += winners != 1;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
  MPI_Get(&seen, 1, MPI_LONG, 0, kLongs, 1, MPI_LONG, window);
  MPI_Win_unlock(0, window);
  errors += seen != 100L * ranks;
  MPI_Win_free(&window);
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  messages();
  many_messages();
  collectives(1);
  collectives(5000);
  one_sided();
  long all = 0;
  MPI_Allreduce(&errors, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: %ld errors\n", ranks, all);
  MPI_Finalize();
  return all != 0;
}
