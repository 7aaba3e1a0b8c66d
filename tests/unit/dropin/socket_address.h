#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

inline sockaddr_in address(const char* ip, uint16_t port = 0) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  inet_pton(AF_INET, ip, &out.sin_addr);
  return out;
}

inline sockaddr* plain(sockaddr_in& in) { return reinterpret_cast<sockaddr*>(&in); }
inline const sockaddr* plain(const sockaddr_in& in) { return reinterpret_cast<const sockaddr*>(&in); }
