#include "tests/script/cm/cm_runner.h"
#include "tests/script/run_scripts.h"

int main(int argc, char** argv) { return uroce::test::run_scripts<uroce::test::CmRunner>(argc, argv); }
