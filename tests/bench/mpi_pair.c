/* Two ranks of MPI: the latency of 8 bytes and the bandwidth of 1 MiB. In C, because Debian's MPI libraries share no binary
 * interface: run_frameworks compiles it. Prints "US GBPS": microseconds, half a round trip, and gigabits per second. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSmall = 8, kLarge = 1 << 20, kWindow = 16, kWarmUp = 200 };

static double latency(int rank, char* buffer, int rounds) {
  double start = 0;
  for (int i = -kWarmUp; i < rounds; ++i) {
    if (i == 0) start = MPI_Wtime();
    if (rank == 0) MPI_Send(buffer, kSmall, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer, kSmall, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(buffer, kSmall, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - start) / rounds / 2;
}

static double bandwidth(int rank, char* buffer, int windows) {
  MPI_Request requests[kWindow];
  double start = 0;
  for (int i = -2; i < windows; ++i) {
    if (i == 0) start = MPI_Wtime();
    for (int w = 0; w < kWindow; ++w) {
      char* data = buffer + (size_t)w * kLarge;
      if (rank == 0) MPI_Isend(data, kLarge, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[w]);
      else MPI_Irecv(data, kLarge, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[w]);
    }
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    /* The receiver has all of it. */
    if (rank == 1) MPI_Send(buffer, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    else MPI_Recv(buffer, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return 8.0 * windows * kWindow * kLarge / (MPI_Wtime() - start);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* buffer = calloc(kWindow, kLarge);
  const double us = latency(rank, buffer, argc > 1 ? atoi(argv[1]) : 20000) * 1e6;
  const double gbps = bandwidth(rank, buffer, argc > 2 ? atoi(argv[2]) : 60) / 1e9;
  if (rank == 0) printf("%.3f %.3f\n", us, gbps);
  free(buffer);
  MPI_Finalize();
  return 0;
}
