/* Answers every HTTP request on port 9376 (or on that of its first argument) with the name of its host, which in a pod is
   the pod's. Stands in for the image gcr.io/google_containers/serve_hostname of Kubernetes' documents. */

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { DEFAULT_PORT = 9376, WAIT_SECONDS = 5, MOST_REQUEST = 4096 };

static void stop(int signal_number) { _exit(128 + signal_number); }

static void answer(int client, const char *name) {
    char request[MOST_REQUEST], reply[512];
    struct timeval wait = {.tv_sec = WAIT_SECONDS};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (recv(client, request, sizeof request, 0) <= 0)
        return;
    int length = snprintf(reply, sizeof reply,
                          "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                          "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                          strlen(name), name);
    send(client, reply, (size_t)length, 0);
}

static int listening(int port) {
    int server = socket(AF_INET6, SOCK_STREAM, 0), off = 0, on = 1;
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int is_six = server >= 0;
    if (is_six)
        setsockopt(server, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    else
        server = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int bound = is_six ? bind(server, (struct sockaddr *)&any6, sizeof any6)
                       : bind(server, (struct sockaddr *)&any4, sizeof any4);
    return bound == 0 && listen(server, 64) == 0 ? server : -1;
}

int main(int count, char **arguments) {
    char name[256] = "";
    signal(SIGTERM, stop); /* the first process of a container has no default for it */
    signal(SIGINT, stop);
    signal(SIGPIPE, SIG_IGN);
    gethostname(name, sizeof name - 1);
    int server = listening(count > 1 ? atoi(arguments[1]) : DEFAULT_PORT);
    if (server < 0) {
        perror("serve_hostname");
        return 1;
    }
    for (;;) {
        int client = accept(server, NULL, NULL);
        if (client < 0)
            continue;
        answer(client, name);
        close(client);
    }
}
