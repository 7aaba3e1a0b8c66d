// interop_peer DEVICE: reads a request per line, JSON, and prints its reply as a line of JSON, until its input ends.
#include <exception>
#include <iostream>
#include <string>

#include "peer.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: interop_peer DEVICE\n";
    return 2;
  }
  try {
    interop::Peer peer(argv[1]);
    for (std::string line; std::getline(std::cin, line);) {
      interop::Json reply;
      try {
        reply = peer.answer(interop::Json::parse(line));
      } catch (const std::exception& error) {
        reply = {{"error", error.what()}};
      }
      std::cout << reply.dump() << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "interop_peer " << argv[1] << ": " << error.what() << '\n';
    return 1;
  }
}
