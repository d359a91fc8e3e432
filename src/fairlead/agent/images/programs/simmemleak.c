/* Leaks: takes ten mebibytes more each second, and writes to every page, so that the kernel has to find them.
   Stands in for the image saadali/simmemleak, which Kubernetes' documents ran into its limit. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP_MIB = 10 };

static void stop(int signal_number) { _exit(128 + signal_number); }

int main(void) {
    signal(SIGTERM, stop); /* the first process of a container has no default for it */
    signal(SIGINT, stop);
    for (long taken_mib = STEP_MIB;; taken_mib += STEP_MIB) {
        char *step = malloc((size_t)STEP_MIB << 20);
        if (step == NULL) {
            fprintf(stderr, "no memory beyond %ld MiB\n", taken_mib - STEP_MIB);
            return 1;
        }
        memset(step, 1, (size_t)STEP_MIB << 20);
        printf("%ld MiB\n", taken_mib);
        fflush(stdout);
        sleep(1);
    }
}
