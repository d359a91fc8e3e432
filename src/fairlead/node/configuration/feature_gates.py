"""The feature gates of Kubernetes 1.36 that a node agent may be given, and which of them are on.

A gate that nothing here reads is known all the same: its name is checked, as a kubelet checks it.
Sources: pkg/features/kube_features.go, client-go/features, component-base/logs (v1.36.3); component-base/featuregate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

CPU_QUOTA_PERIOD: Final = "CustomCPUCFSQuotaPeriod"
CRASH_LOOP_MAX: Final = "KubeletCrashLoopBackOffMax"
ENV_FILES: Final = "EnvFiles"
INIT_CONTAINER_RESIZE: Final = "InPlacePodVerticalScalingInitContainers"
MEMORY_QOS: Final = "MemoryQoS"
NODE_DECLARED_FEATURES: Final = "NodeDeclaredFeatures"
NODE_SWAP: Final = "NodeSwap"
NO_QUOTA_WITH_OWN_CPUS: Final = "DisableCPUQuotaWithExclusiveCPUs"
POD_LEVEL_RESIZE: Final = "InPlacePodLevelResourcesVerticalScaling"
POD_LEVEL_RESOURCES: Final = "PodLevelResources"
PULLED_SECRET_IMAGES: Final = "KubeletEnsureSecretPulledImages"
QOS_RESERVED: Final = "QOSReserved"
RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"

_ALPHA: Final = """
    APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions
    CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
    CrossNamespaceVolumeDataSource DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
    DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero ImageVolumeWithDigest
    InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace
    LoggingAlphaOptions ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity
    PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
    PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
    ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
    TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
    VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob
"""
_BETA_OFF: Final = """
    ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
    DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
    PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
"""
_BETA_ON: Final = """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
    AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
    ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
    ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
    DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
    DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
    DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
    ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
    HostnameOverride InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
    InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
    KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
    MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
    NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost
    PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
    PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
    StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
    StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
    StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
    StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
    TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
    UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList
    WatchListClient WindowsGracefulNodeShutdown
"""
#: General or deprecated: the stages say nothing about them.
_SETTLED_ON: Final = """
    AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList DisableCPUQuotaWithExclusiveCPUs
    InformerResourceVersion KubeletPodResourcesListUseActivePods MutatingAdmissionPolicy
    ServiceCIDRStatusFieldWiping StorageNamespaceIndex
"""
_SETTLED_OFF: Final = """
    AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
    DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
"""
#: Part of Kubernetes for good, or gone from it: named, they may only be what they are.
_LOCKED_ON: Final = """
    APIServerTracing AggregatedDiscoveryRemoveBetaType AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
    AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions
    CRDValidationRatcheting CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors
    DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite DisableNodeKubeProxyVersion
    DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume
    InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy
    JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown
    MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
    NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
    PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
    RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization
    RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerQueueingHints
    SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
    SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
    VolumeAttributesClass WinDSR WinOverlay
"""
_LOCKED_OFF: Final = """
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
"""
_STAGES: Final[Mapping[str, frozenset[str]]] = {
    "AllAlpha": frozenset(_ALPHA.split()),
    "AllBeta": frozenset(_BETA_OFF.split()) | frozenset(_BETA_ON.split()),
}
_LOCKED: Final = frozenset(_LOCKED_ON.split()) | frozenset(_LOCKED_OFF.split())
_DEFAULTS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(
        [*_STAGES, *_ALPHA.split(), *_BETA_OFF.split(), *_SETTLED_OFF.split(), *_LOCKED_OFF.split()], False
    ),
    **dict.fromkeys([*_BETA_ON.split(), *_SETTLED_ON.split(), *_LOCKED_ON.split()], True),
}


class FeatureGates(msgspec.Struct, frozen=True):
    """Which features are on; those that are not named have their defaults."""

    stated: Mapping[str, bool] = msgspec.field(default_factory=dict)

    def enabled(self, gate: str) -> bool:
        if gate in self.stated:
            return self.stated[gate]
        for stage, gates in _STAGES.items():
            if gate in gates and stage in self.stated:
                return self.stated[stage]
        return _DEFAULTS[gate]

    def with_stated(self, stated: Mapping[str, bool]) -> FeatureGates:
        """With these besides; ValueError for one that does not exist, or that cannot be changed."""
        for gate in sorted(stated):
            if gate not in _DEFAULTS:
                raise ValueError(f"unrecognized feature gate: {gate}")
            if gate in _LOCKED and stated[gate] is not _DEFAULTS[gate]:
                is_, wanted = (str(each).lower() for each in (_DEFAULTS[gate], stated[gate]))
                raise ValueError(f"cannot set feature gate {gate} to {wanted}, feature is locked to {is_}")
        return FeatureGates({**self.stated, **stated})
