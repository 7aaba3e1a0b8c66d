#include "ports.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new uroce::glue::EalEnvironment);
  return RUN_ALL_TESTS();
}
