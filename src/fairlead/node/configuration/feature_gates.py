"""The feature gates of Kubernetes 1.36 that a node agent may be given, and which of them are on.

A gate that nothing here reads is known all the same: its name is checked, as a kubelet checks it.
Sources: pkg/features/kube_features.go, k8s.io/component-base/featuregate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

CPU_QUOTA_PERIOD: Final = "CustomCPUCFSQuotaPeriod"
CRASH_LOOP_MAX: Final = "KubeletCrashLoopBackOffMax"
ENV_FILES: Final = "EnvFiles"
EXCLUSIVE_CPUS_RESIZE: Final = "InPlacePodVerticalScalingExclusiveCPUs"
MEMORY_QOS: Final = "MemoryQoS"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
NODE_SWAP: Final = "NodeSwap"
POD_LEVEL_RESIZE: Final = "InPlacePodLevelResourcesVerticalScaling"
POD_LEVEL_RESOURCES: Final = "PodLevelResources"
PULLED_SECRET_IMAGES: Final = "KubeletEnsureSecretPulledImages"
QOS_RESERVED: Final = "QOSReserved"
USER_NAMESPACES: Final = "UserNamespacesSupport"

_ALPHA: Final = """
    APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions
    CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
    CloudControllerManagerWebhook ComponentFlagz ComponentStatusz ConstrainedImpersonation ContainerStopSignals
    CrossNamespaceVolumeDataSource DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules
    DRADeviceTaints DRAExtendedResource DRAPartitionableDevices EventedPLEG GangScheduling GenericWorkload
    HPAScaleToZero InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
    InTreePluginPortworxUnregister KubeletInUserNamespace LoggingAlphaOptions MemoryQoS MutablePVNodeAffinity
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
    PodAndContainerStatsFromCRI PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay
    RelaxedServiceNameValidation ResourceHealthStatus RestartAllContainersOnContainerExits RuntimeClassInImageCriApi
    StorageCapacityScoring StorageVersionAPI StrictIPCIDRValidation TaintTolerationComparisonOperators
    TopologyManagerPolicyAlphaOptions UnknownVersionInteroperabilityProxy UserNamespacesHostNetworkSupport
    VolumeLimitScaling WindowsCPUAndMemoryAffinity
"""
_BETA_OFF: Final = """
    CRDObservedGenerationTracking ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
    CoordinatedLeaderElection DeclarativeValidationTakeover LocalStorageCapacityIsolationFSQuotaMonitoring
    MutatingAdmissionPolicy NodeLogQuery PodCertificateRequest SELinuxMount StorageVersionMigrator
    WatchCacheInitializationPostStartHook
"""
_BETA_ON: Final = """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth
    AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CSIServiceAccountTokenSecrets
    ClearingNominatedNodeNameAfterBinding ContainerCheckpoint ContainerRestartRules ContextualLogging DRAAdminAccess
    DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DeclarativeValidation
    DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableCPUQuotaWithExclusiveCPUs EnvFiles
    ExternalServiceAccountTokenSigner GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
    HPAConfigurableTolerance HostnameOverride ImageVolume InOrderInformers InOrderInformersBatchProcess
    InPlacePodLevelResourcesVerticalScaling KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
    KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet
    KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
    MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet
    MutableCSINodeAllocatableCount NodeDeclaredFeatures NominatedNodeNameForExpectation OpenAPIEnums
    OpportunisticBatching PodDeletionCost PodLevelResources PodReadyToStartContainersCondition
    PodTopologyLabelsAdmission
    PortForwardWebsockets PreventStaticPodAPIReferences ProcMountType ReloadKubeletServerCertificateFile
    RemoteRequestHeaderUID RotateKubeletServerCertificate SELinuxChangePolicy SELinuxMountReadWriteOncePod
    SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction
    SizeBasedListCostEstimate StatefulSetSemanticRevisionComparison StorageVersionHash
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
    UnauthenticatedHTTP2DOSMitigation UserNamespacesSupport WatchList WatchListClient WindowsGracefulNodeShutdown
"""
_GA: Final = "CustomCPUCFSQuotaPeriod"
#: Part of Kubernetes for good: named, they may only be on.
_LOCKED: Final = """
    CPUManagerPolicyOptions DynamicResourceAllocation ImageMaximumGCAge InPlacePodVerticalScaling
    KubeletCgroupDriverFromCRI KubeletTracing MemoryManager NodeSwap PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation SidecarContainers
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
"""
_STAGES: Final[Mapping[str, frozenset[str]]] = {
    "AllAlpha": frozenset(_ALPHA.split()),
    "AllBeta": frozenset(_BETA_OFF.split()) | frozenset(_BETA_ON.split()),
}
_LOCKED_ON: Final = frozenset(_LOCKED.split())
_DEFAULTS: Final[Mapping[str, bool]] = {
    **dict.fromkeys([*_STAGES, *_ALPHA.split(), *_BETA_OFF.split()], False),
    **dict.fromkeys([*_BETA_ON.split(), *_GA.split(), *_LOCKED_ON], True),
}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which features are on; those that are not named have their defaults."""

    stated: Mapping[str, bool] = field(default_factory=dict)

    def enabled(self, gate: str) -> bool:
        if gate in self.stated:
            return self.stated[gate]
        for stage, gates in _STAGES.items():
            if gate in gates and self.stated.get(stage):
                return True
        return _DEFAULTS[gate]

    def with_stated(self, stated: Mapping[str, bool]) -> FeatureGates:
        """With these besides; ValueError for one that does not exist, or that cannot be changed."""
        for gate in sorted(stated):
            if gate not in _DEFAULTS:
                raise ValueError(f"unrecognized feature gate: {gate}")
            if gate in _LOCKED_ON and not stated[gate]:
                raise ValueError(f"cannot set feature gate {gate} to false, feature is locked to true")
        return FeatureGates({**self.stated, **stated})
