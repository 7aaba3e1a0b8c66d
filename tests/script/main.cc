#include "tests/script/run_scripts.h"
#include "tests/script/runner.h"

int main(int argc, char** argv) { return uroce::test::run_scripts<uroce::test::Runner>(argc, argv); }
