// uroce_perf, and under other names uroce_{write,read,send,atomic,flush}_{bw,lat}: benchmarks of a stack in this
// process or of a daemon.
#include "perf/program.h"

int main(int argc, char** argv) { return uroce::perf::run_program(argc, argv); }
